"""Who is asking: one module for each scheme, chosen by what a provider's row says, never by its name.

`auth = auth_for(provider, key=…, env=…)`, then for every request
`signed = await auth.sign(method, url, headers, body, fetch)`. Schemes that need a library need its extra.
"""

from penstock.engines.auth.choice import NONE, auth_for, chosen
from penstock.engines.auth.secret import Secret
from penstock.engines.auth.signing import Auth, Fetch, Signed

__all__ = ["NONE", "Auth", "Fetch", "Secret", "Signed", "auth_for", "chosen"]
