"""The topology map of a pool: rows become values, values become laid-out boxes, boxes become SVG."""
