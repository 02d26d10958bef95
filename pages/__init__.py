"""What a person sees in a browser, drawn on the server: pools, the topology map, workflows.

A page is complete as it is loaded; the one script only loads it again. Nothing is built, nothing comes from
another host, and no page carries an inline script or style, so its policy of content can be strict.
"""
