from .chromium import browser, page, site

__all__ = ["browser", "page", "site"]
