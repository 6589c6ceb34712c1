//! Common parts of the pages that list names: the filter, and the links between pages of a list.

use askama::Template;

use crate::{
    paging::Paging,
    visit::{Visit, encoded},
};

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

impl<'a> NamesFilter<'a> {
    /// Creates the filter for the page of a visit. `one` is the path of the page about one entry.
    pub(super) fn new(visit: &'a Visit, one: &'static str) -> NamesFilter<'a> {
        NamesFilter { list: visit.entry.path, one, prefix: visit.query().get("prefix") }
    }
}

/// Creates the links of a list on the page of a visit. `next` is the token of the next page.
pub(super) fn paging(visit: &Visit, next: &str) -> Paging {
    let (path, query) = (visit.entry.path, visit.query());
    let first = format!("{path}?prefix={}", encoded(query.get("prefix")));
    Paging::new("the list", query.get("page"), next, |token| match token {
        "" => first.clone(),
        token => format!("{first}&page={}", encoded(token)),
    })
}
