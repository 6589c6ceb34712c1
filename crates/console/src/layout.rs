//! The layout of every page: navigation, state of the server, message, parts.

use askama::Template;

use super::{
    LIVE, assets,
    format::{Ago, Moment, iso},
    page::{PagePart, Problem, RenderedPage},
    pages::PAGES,
    visit::Visit,
};
use tollgate_status::status::{LossState, Status, StoreLoss};

#[derive(Template)]
#[template(path = "layout.html")]
struct LayoutTemplate<'a> {
    title: &'a str,
    style: &'a str,
    script: &'a str,
    now: String,
    /// The URL of the stream; empty for a page without live parts.
    live: String,
    links: Vec<NavLink>,
    caller_name: Option<&'a str>,
    namespace: &'a str,
    chooses_namespace: bool,
    message: Option<&'a (bool, String)>,
    head: &'a [PagePart],
    parts: &'a [PagePart],
}

struct NavLink {
    path: &'static str,
    title: &'static str,
    is_current: bool,
}

#[derive(Template)]
#[template(path = "state.html")]
struct StateTemplate {
    status: Status,
    is_up: bool,
}

#[derive(Template)]
#[template(path = "notice.html")]
struct NoticeTemplate<'a> {
    text: Option<&'a str>,
    as_of: Option<Ago>,
}

#[derive(Template)]
#[template(path = "loss.html")]
struct LossTemplate {
    losses: Vec<ShownLoss>,
}

/// A loss of the store's data that no operator has accepted yet.
struct ShownLoss {
    node: String,
    time: Moment,
    is_refusing: bool,
}

fn losses(visit: &Visit) -> LossTemplate {
    let open = visit.server().store_losses().into_iter().filter(StoreLoss::is_open);
    let shown = open.map(|loss| ShownLoss {
        is_refusing: loss.state == LossState::Refusing,
        node: loss.node,
        time: Moment(loss.time),
    });
    LossTemplate { losses: shown.collect() }
}

/// Returns the parts of the layout that change: the state of the server, the notice about the
/// store, and a loss of its data.
pub(super) fn head_parts(visit: &Visit, rendered: &RenderedPage) -> Result<Vec<PagePart>, Problem> {
    let status = visit.server().status();
    let is_up = status.store == "up";
    let state = StateTemplate { status, is_up }.render()?;
    let as_of = rendered.as_of.map(|time| Ago::new(time, visit.now()));
    let notice = NoticeTemplate { text: rendered.page.lack.as_deref(), as_of }.render()?;
    let loss = losses(visit).render()?;
    Ok(vec![part("state", &state), part("notice", &notice), part("loss", &loss)])
}

/// Returns the notice about a problem on a live page.
pub(super) fn notice_of(problem: &Problem) -> PagePart {
    let notice = NoticeTemplate { text: Some(problem.message()), as_of: None }.render();
    part("notice", &notice.unwrap_or_default())
}

fn part(id: &'static str, html: &str) -> PagePart {
    PagePart { id, html: html.into(), is_live: true }
}

/// Returns a whole page.
pub(super) fn page(
    visit: &Visit,
    rendered: &RenderedPage,
    message: Option<&(bool, String)>,
) -> Result<String, Problem> {
    let links = PAGES.iter().filter(|page| page.is_linked).map(|page| NavLink {
        path: page.path,
        title: page.title,
        is_current: page.path == visit.entry.path || visit.entry.within == page.path,
    });
    let head = head_parts(visit, rendered)?;
    let layout = LayoutTemplate {
        title: &rendered.page.title,
        style: assets::style(),
        script: assets::script(),
        now: iso(visit.now()),
        live: if rendered.page.parts.iter().any(|part| part.is_live) {
            format!("{LIVE}{}", visit.target)
        } else {
            String::new()
        },
        links: links.collect(),
        caller_name: visit.caller.as_ref().map(|caller| &*caller.name),
        namespace: &visit.namespace,
        chooses_namespace: visit.caller.as_ref().is_some_and(|it| it.chooses_namespace),
        message,
        head: &head,
        parts: &rendered.page.parts,
    };
    Ok(layout.render()?)
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginTemplate<'a> {
    style: &'a str,
    next: &'a str,
    error: Option<&'a str>,
}

/// Renders the page that asks for a token.
pub(super) fn login(next: &str, error: Option<&str>) -> Result<String, Problem> {
    Ok(LoginTemplate { style: assets::style(), next, error }.render()?)
}
