# SPDX-License-Identifier: ISC
"""Certificates for the tests: authorities, valid certificates, and each kind of invalid one."""

import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
DAY = datetime.timedelta(days=1)


def _name(texts):
    """A name with one CN, or with several."""
    texts = (texts,) if isinstance(texts, str) else texts
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text) for text in texts])


def _alternative(text):
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _key(kind):
    """A new key, or that of another certificate."""
    if isinstance(kind, Certificate):
        return kind.private
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(ec.SECP256R1())


class Certificate:
    """Files: .cert (with the chain), .key, and for authorities .ca."""

    def __init__(self, store, name, cn, issuer=None, names=(), days=(-1, 60), is_authority=False,
                 key="ec"):
        self.store = store
        self.name = name
        self.issuer = issuer
        self.private = _key(key)
        now = datetime.datetime.utcnow()
        builder = (x509.CertificateBuilder().subject_name(_name(cn))
                   .issuer_name(issuer.own.subject if issuer else _name(cn))
                   .public_key(self.private.public_key())
                   .serial_number(x509.random_serial_number())
                   .not_valid_before(now + days[0] * DAY).not_valid_after(now + days[1] * DAY)
                   .add_extension(x509.BasicConstraints(is_authority, None), critical=True))
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(text) for text in names]), False)
        if not is_authority:
            builder = builder.add_extension(x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False)
        self.own = builder.sign(issuer.private if issuer else self.private, hashes.SHA256())
        self.cert = store.write(f"{name}.crt", self._chain(), 0o644)
        self.key = store.write(f"{name}.key", self._key_text())

    def _chain(self):
        """The certificate and its intermediate certificates, without the root."""
        text, at = self.own.public_bytes(PEM), self.issuer
        while at and at.issuer:
            text += at.own.public_bytes(PEM)
            at = at.issuer
        return text

    def _key_text(self, password=None):
        how = (serialization.BestAvailableEncryption(password) if password
               else serialization.NoEncryption())
        return self.private.private_bytes(PEM, serialization.PrivateFormat.PKCS8, how)

    def encrypted_key(self):
        return self.store.write(f"{self.name}.secret.key", self._key_text(b"a password"))


    def issue(self, name, cn, **kw):
        return Certificate(self.store, name, cn, issuer=self, **kw)

    def authority(self, name, cn):
        return Certificate(self.store, name, cn, issuer=self, is_authority=True)


class Store:
    """A directory of certificates that the unprivileged user can read."""

    def __init__(self, account, place):
        self.account = account
        self.dir = account.mkdir(place)

    def write(self, name, content, mode=0o600):
        path = os.path.join(self.dir, name)
        with open(f"{path}.new", "wb") as file:
            file.write(content)
        self.account.own(f"{path}.new", mode)
        os.replace(f"{path}.new", path)
        return path

    def authority(self, name, cn):
        return Certificate(self, name, cn, is_authority=True)
