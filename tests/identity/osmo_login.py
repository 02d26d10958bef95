"""How OSMO's client (6.4.0) logs in at an identity provider, step by step as it does.

Written from the contract's description: which addresses it reads, what it sends, which fields it needs of
each answer, and that it sends the id_token as its bearer.
"""

import base64
import hashlib
import secrets
import time
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

import requests

SECONDS = 30
SCOPE = "openid offline_access profile"
REDIRECT = "http://localhost:39817"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass
class StoredLogin:
    """What the client keeps: the token that it sends, and how to get the next one."""

    id_token: str
    refresh_token: str
    refresh_url: str
    client_id: str


class OsmoLogin:
    """The client's two ways, with the answer of ``GET /api/auth/login``."""

    def __init__(self, info, *, authority):
        self.info = info
        self.session = requests.Session()
        self.session.trust_env = False  # the authority alone, whatever the machine trusts
        self.session.verify = str(authority)

    def device_code(self, person):
        """``login --method code``."""
        client = {"client_id": self.info["device_client_id"]}
        begun = self._post(self.info["device_endpoint"], {**client, "scope": SCOPE})
        assert begun.status_code == 200, begun.text
        answer = begun.json()
        interval, ends = answer["interval"], time.time() + int(answer["expires_in"])
        poll = {**client, "grant_type": DEVICE_GRANT, "device_code": answer["device_code"]}
        assert self._post(self.info["token_endpoint"], poll).json()["error"] == "authorization_pending"
        assert interval
        assert time.time() < ends
        person.visit(
            f"{answer['verification_uri']}?{urlencode({'user_code': answer['user_code']})}",
            until_shown="Sign-in Success",
        )
        tokens = self._post(self.info["token_endpoint"], poll).json()
        assert "error" not in tokens, tokens
        return self._stored(tokens, client["client_id"])

    def browser(self, person, *, verifier=None):
        """``login --method pkce``; ``verifier`` replaces the one that fits the challenge."""
        for name in ("browser_endpoint", "token_endpoint"):
            assert self.info[name].startswith("https://"), f"the client refuses {name}"
        fitting, state, nonce = (secrets.token_urlsafe(48) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(fitting.encode()).digest()).rstrip(b"=").decode()
        query = {
            "client_id": self.info["browser_client_id"],
            "response_type": "code",
            "redirect_uri": REDIRECT,
            "scope": SCOPE,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        back = person.visit(f"{self.info['browser_endpoint']}?{urlencode(query)}", until=REDIRECT)
        values = parse_qs(urlsplit(back).query)
        assert values["state"] == [state]
        exchange = {
            "grant_type": "authorization_code",
            "client_id": self.info["browser_client_id"],
            "code": values["code"][0],
            "redirect_uri": REDIRECT,
            "code_verifier": verifier or fitting,
        }
        answer = self._post(self.info["token_endpoint"], exchange)
        if answer.status_code != 200:
            return answer
        return self._stored(answer.json(), self.info["browser_client_id"])

    def refresh(self, stored):
        """A new token when the old one has expired."""
        body = {
            "grant_type": "refresh_token",
            "refresh_token": stored.refresh_token,
            "client_id": stored.client_id,
        }
        answer = self._post(stored.refresh_url, body)
        assert answer.status_code < 300, answer.text
        return self._stored(answer.json(), stored.client_id)

    def close(self):
        self.session.close()

    def _stored(self, tokens, client):
        return StoredLogin(tokens["id_token"], tokens["refresh_token"], self.info["token_endpoint"], client)

    def _post(self, address, body):
        return self.session.post(address, data=body, timeout=SECONDS)
