//! The links between the pages of a list.

use askama::{Template, filters::HtmlSafe};

/// The links of a list; empty if it has only one page.
#[derive(Debug, Template)]
#[template(path = "paging.html")]
pub(super) struct Paging {
    /// What the list contains, as in "Pages of leases".
    of: &'static str,
    /// The URL of the first page; `None` on the first page itself.
    first: Option<String>,
    /// The URL of the next page; `None` on the last one.
    next: Option<String>,
}

impl HtmlSafe for Paging {}

impl Paging {
    /// Creates the links on the page with the token `current`, which is empty on the first page;
    /// `next` is empty on the last one. `url` returns the URL of the page with a token.
    pub(super) fn new(
        of: &'static str,
        current: &str,
        next: &str,
        url: impl Fn(&str) -> String,
    ) -> Paging {
        let first = (!current.is_empty()).then(|| url(""));
        let next = (!next.is_empty()).then(|| url(next));
        Paging { of, first, next }
    }

    /// Whether this is the first page.
    pub(super) fn is_first(&self) -> bool {
        self.first.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_first_and_the_next_page() {
        let paging = |current, next| {
            Paging::new("leases", current, next, |token| format!("/pool?name=p&leases={token}"))
        };
        let only = paging("", "");
        assert!(only.is_first() && only.to_string().is_empty(), "{only}");
        let first = paging("", "t").to_string();
        assert!(first.contains("<nav class=\"paging\" aria-label=\"Pages of leases\">"), "{first}");
        let next = "<a rel=\"next\" href=\"/pool?name=p&#38;leases=t\">Next page</a>";
        assert!(first.contains(next) && !first.contains("First page"), "{first}");
        let last = paging("t", "");
        assert!(!last.is_first());
        let last = last.to_string();
        let first = "<a href=\"/pool?name=p&#38;leases=\">First page</a>";
        assert!(last.contains(first) && !last.contains("Next page"), "{last}");
    }
}
