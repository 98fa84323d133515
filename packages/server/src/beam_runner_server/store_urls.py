"""URLs of stores that clients give to the server."""

from __future__ import annotations

from pathlib import Path

from beam_runner_jobservices.errors import JobRejected
from beam_runner_storage.stores.spec import StoreSpec, parse_user_store


def parse_store_url(url: str, name: str) -> StoreSpec:
    """Returns the address of a store. Refuses relative paths, because the working directory of the
    server isn't that of the client.

    Args:
        name: option or argument with the URL, for errors.

    Raises:
        JobRejected: the URL has no known form.
    """
    try:
        spec = parse_user_store(url)
    except ValueError as error:
        raise JobRejected(f"{name}: {error}", unsupported=False) from error
    if "://" not in url and not Path(url).is_absolute():
        raise JobRejected(
            f"{name} is {url!r}; expected the absolute path of a folder on the server, or a URL such"
            " as s3://BUCKET/PREFIX",
            unsupported=False,
        )
    return spec
