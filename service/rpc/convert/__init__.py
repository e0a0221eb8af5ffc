"""Between the wire and the domain: the only modules that know both worlds.

``request``, ``stopping``  protobuf -> domain, with all validation; after it nobody checks a field
             again
``answer``   domain -> protobuf
``status``   errors -> gRPC status with google.rpc details
"""
