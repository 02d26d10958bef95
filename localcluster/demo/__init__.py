"""The main job, shown: a cluster is drawn, pools are configured over REST, the four use cases run.

Everything here is a client: it talks to the service over HTTP and to the API server, imports nothing
of the product, and its checks read pods, nodes and objects in the cluster, never the service's tables.
"""
