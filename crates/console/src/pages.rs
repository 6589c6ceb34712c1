//! The pages of the console, by path.

mod events;
mod key;
mod locks;
mod names;
mod overview;
mod policy;
mod pool;
mod pools;
mod rates;
mod sequences;
mod stock;
mod system;

use super::{page::Problem, visit::PageEntry};

/// All pages, in the order of the navigation bar.
pub(super) static PAGES: &[PageEntry] = &[
    PageEntry {
        path: "/",
        title: "Overview",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(overview::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/pools",
        title: "Pools",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(pools::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/pool",
        title: "Pool",
        is_linked: false,
        within: "/pools",
        load: |visit| Box::pin(pool::load(visit)),
        act: Some(|visit, form| Box::pin(pool::act(visit, form))),
    },
    PageEntry {
        path: "/rates",
        title: "Rates",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(rates::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/policy",
        title: "Policy",
        is_linked: false,
        within: "/rates",
        load: |visit| Box::pin(policy::load(visit)),
        act: Some(|visit, form| Box::pin(policy::act(visit, form))),
    },
    PageEntry {
        path: "/key",
        title: "Key",
        is_linked: false,
        within: "/rates",
        load: |visit| Box::pin(key::load(visit)),
        act: Some(|visit, form| Box::pin(key::act(visit, form))),
    },
    PageEntry {
        path: "/sequences",
        title: "Sequences",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(sequences::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/sequence",
        title: "Sequence",
        is_linked: false,
        within: "/sequences",
        load: |visit| Box::pin(sequences::load_one(visit)),
        act: None,
    },
    PageEntry {
        path: "/locks",
        title: "Locks",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(locks::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/lock",
        title: "Lock",
        is_linked: false,
        within: "/locks",
        load: |visit| Box::pin(locks::load_one(visit)),
        act: Some(|visit, form| Box::pin(locks::act(visit, form))),
    },
    PageEntry {
        path: "/stock",
        title: "Stock",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(stock::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/sku",
        title: "Sku",
        is_linked: false,
        within: "/stock",
        load: |visit| Box::pin(stock::load_one(visit)),
        act: Some(|visit, form| Box::pin(stock::act(visit, form))),
    },
    PageEntry {
        path: "/events",
        title: "Events",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(events::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/system",
        title: "System",
        is_linked: true,
        within: "",
        load: |visit| Box::pin(system::load(visit)),
        act: None,
    },
    PageEntry {
        path: "/reload",
        title: "Reload the configuration",
        is_linked: false,
        within: "/system",
        load: |visit| Box::pin(system::load_reload(visit)),
        act: Some(|visit, form| Box::pin(system::reload(visit, form))),
    },
];

/// Finds the page with this path.
pub(super) fn find(path: &str) -> Result<&'static PageEntry, Problem> {
    let page = PAGES.iter().find(|page| page.path == path);
    page.ok_or_else(|| {
        Problem::Absent(
            "no such page; try the console at /, or /metrics, /livez, /readyz, /status, \
             /healthcheck, /rlconfig or, for POST, /json"
                .to_owned(),
        )
    })
}
