//! The parts of pages that list names: the filter, and the links between pages of a list.

use askama::Template;

use crate::console::visit::{Visit, encoded};

/// Entries on a page.
pub(super) const PAGE: u32 = 100;

/// The filter of a list, and the form that opens one entry.
#[derive(Template)]
#[template(path = "names_filter.html")]
pub(super) struct NamesFilter<'a> {
    /// The path of the list, and of one entry.
    list: &'static str,
    one: &'static str,
    prefix: &'a str,
}

/// The links of a list.
#[derive(Debug)]
pub(super) struct NameLinks {
    /// The query of the first page.
    pub(super) first: String,
    /// The query of the next page; `None` on the last one.
    pub(super) next: Option<String>,
    pub(super) is_first: bool,
}

impl<'a> NamesFilter<'a> {
    /// The filter of the page of a visit. `one` is the path of the page about one entry.
    pub(super) fn new(visit: &'a Visit, one: &'static str) -> NamesFilter<'a> {
        NamesFilter { list: visit.entry.path, one, prefix: visit.query().get("prefix") }
    }
}

impl NameLinks {
    /// The links of the page of a visit. `next` is the token of the next page.
    pub(super) fn new(visit: &Visit, next: &str) -> NameLinks {
        let first = format!("prefix={}", encoded(visit.query().get("prefix")));
        let next = match next {
            "" => None,
            next => Some(format!("{first}&page={}", encoded(next))),
        };
        NameLinks { first, next, is_first: visit.query().get("page").is_empty() }
    }
}
