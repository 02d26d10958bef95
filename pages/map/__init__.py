"""The topology map of a pool: rows gathered into values, values laid out as boxes, boxes written as SVG."""
