"""Episodes as one HTML page to mail: it holds all it shows and asks nothing of the network.

`model` says what is on it, `page.html` how it is laid out. Nothing of an episode becomes markup: every
expression of the template is escaped, control characters are written out, pictures are raster only, and
the page's own policy (CSP) lets run and style nothing but the script and the sheet that it came with.
"""

from eventlog.report.model import FIELDS, Recorded
from eventlog.report.page import Page

__all__ = ["FIELDS", "Page", "Recorded"]
