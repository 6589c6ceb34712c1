//! Renders pages, runs actions, and builds the responses.

use std::sync::Arc;

use hyper::{Response, StatusCode, header::SET_COOKIE, http::request::Parts};

use super::{
    Console, PageBody, answer, cookies,
    fields::FormFields,
    layout,
    live::PageId,
    page::{ConsolePage, PagePart, Problem, RenderedPage},
    visit::Visit,
};

impl Visit {
    /// Renders the page. While the store is unreachable, missing parts are taken from the last
    /// rendering.
    pub(super) async fn render(&self) -> Result<RenderedPage, Problem> {
        if !self.is_known() {
            return Err(Problem::SignedOut("the token has expired".to_owned()));
        }
        let page = match (self.entry.load)(self).await {
            Err(Problem::Store(why)) => ConsolePage::new(self.entry.title).lacking(why),
            page => page?,
        };
        let (id, live) = (PageId::from_visit(self), &self.console.live);
        let is_whole = page.lack.is_none();
        let kept = if is_whole { None } else { live.kept(&id) };
        let as_of = kept.as_ref().map(|(time, _)| *time);
        let page = Arc::new(match kept {
            Some((_, earlier)) => page.completed(&earlier),
            None => page,
        });
        if is_whole {
            live.keep(&id, &page, self.now());
        }
        Ok(RenderedPage { page, as_of })
    }

    /// Renders the parts of the page that change.
    pub(super) async fn render_live(&self) -> Result<Vec<PagePart>, Problem> {
        let rendered = self.render().await?;
        let page = &rendered.page;
        if page.lack.is_none() && !page.parts.iter().any(|part| part.is_live) {
            return Err(Problem::Absent("this page has no live parts".to_owned()));
        }
        let mut parts = layout::head_parts(self, &rendered)?;
        parts.extend(rendered.page.parts.iter().filter(|part| part.is_live).cloned());
        Ok(parts)
    }
}

impl Console {
    /// Responds with the page.
    pub(super) async fn page(
        self: &Arc<Console>,
        visit: &Visit,
        head: &Parts,
    ) -> Response<PageBody> {
        let rendered = match visit.render().await {
            Ok(rendered) => rendered,
            Err(problem @ Problem::SignedOut(_)) => return self.problem(&problem, false, head),
            Err(problem) => return problem_page(visit, &problem),
        };
        let status = match &rendered.page.lack {
            Some(_) if rendered.as_of.is_none() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        };
        let message =
            cookies::get(&head.headers, cookies::MESSAGE).and_then(cookies::parse_message);
        let mut response = match layout::page(visit, &rendered, message.as_ref()) {
            Ok(html) => answer::html(status, html),
            Err(problem) => return answer::refusal(problem.status(), problem.message()),
        };
        if message.is_some() {
            response
                .headers_mut()
                .extend(cookies::set(cookies::MESSAGE, "", 0).map(|cookie| (SET_COOKIE, cookie)));
        }
        response
    }

    /// Runs the action of a page, and shows the page again with a message.
    pub(super) async fn act(
        self: &Arc<Console>,
        visit: &Visit,
        form: &FormFields,
        head: &Parts,
    ) -> Response<PageBody> {
        let Some(act) = visit.entry.act else {
            return answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "this page has no actions");
        };
        let message = match act(visit, form).await {
            Ok(message) => cookies::message(true, &message),
            Err(problem @ Problem::SignedOut(_)) => return self.problem(&problem, false, head),
            Err(problem @ Problem::Forbidden(_)) => return problem_page(visit, &problem),
            Err(problem) => cookies::message(false, problem.message()),
        };
        answer::redirect(&visit.target, cookies::set(cookies::MESSAGE, &message, 60))
    }
}

/// Renders a page with a problem in place of its parts.
fn problem_page(visit: &Visit, problem: &Problem) -> Response<PageBody> {
    let page = ConsolePage::new(visit.entry.title);
    let rendered = RenderedPage { page: Arc::new(page), as_of: None };
    let message = (false, problem.message().to_owned());
    match layout::page(visit, &rendered, Some(&message)) {
        Ok(html) => answer::html(problem.status(), html),
        Err(problem) => answer::refusal(problem.status(), problem.message()),
    }
}
