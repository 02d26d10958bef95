"""Signing keys of the identity provider, made here so that tests can sign what it never would."""

import json
from functools import cached_property

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa


class SigningKey:
    """An RSA key with an id; it is generated when it is first needed, since some are only named."""

    def __init__(self, kid):
        self.kid = kid

    @cached_property
    def private(self):
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwk(self):
        return {**_jwk(self.private), "kid": self.kid, "use": "sig", "alg": "RS256"}

    def public_jwk(self):
        return {**_jwk(self.private.public_key()), "kid": self.kid, "use": "sig", "alg": "RS256"}

    def sign(self, claims, *, algorithm="RS256", **header):
        return jwt.encode(claims, self.private, algorithm=algorithm, headers={"kid": self.kid, **header})


def _jwk(key):
    return json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key))
