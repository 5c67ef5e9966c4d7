"""Images as model providers take them: inside the request, in base64."""

import base64

from skillpouch.results import Attachment


def base64_text(image: Attachment) -> str:
    """Return the bytes of an image as text."""
    return base64.b64encode(image.data).decode()


def data_url(image: Attachment) -> str:
    """Return an image as an address that holds all of it."""
    return f"data:{image.type};base64,{base64_text(image)}"
