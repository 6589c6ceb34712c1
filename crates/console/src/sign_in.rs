//! Signing in and out, and choosing a namespace.

use std::time::Duration;

use hyper::{HeaderMap, Response, StatusCode, Uri, http::request::Parts};
use tokio::{sync::Semaphore, time::sleep};

use super::{
    Console, PageBody, answer, cookies,
    fields::FormFields,
    layout,
    sessions::{self, Token},
    visit::encoded,
};
use tollgate_core::names::Namespace;

/// Maximum number of concurrent sign-ins; further ones are rejected immediately. A wrong token is
/// answered after a second, so at most this many can be tried per second.
static TRIES: Semaphore = Semaphore::const_new(4);
const WRONG_TOKEN_TIME: Duration = Duration::from_secs(1);

/// Redirects a visitor without a session to the login, and from there back to the page.
pub(super) fn redirect(uri: &Uri) -> Response<PageBody> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    answer::redirect(&format!("/login?next={}", encoded(target)), None)
}

/// Characters that browsers drop from a URL or treat as `/`.
fn is_special(letter: char) -> bool {
    letter == '\\' || letter.is_control()
}

/// Returns a path of this console unchanged, and the first page for any other text.
fn local(next: &str) -> &str {
    if next.starts_with('/') && !next.starts_with("//") && !next.contains(is_special) {
        next
    } else {
        "/"
    }
}

fn login_form(status: StatusCode, next: &str, error: Option<&str>) -> Response<PageBody> {
    match layout::login(local(next), error) {
        Ok(page) => answer::html(status, page),
        Err(problem) => answer::refusal(problem.status(), problem.message()),
    }
}

impl Console {
    /// Returns the page that asks for a token.
    pub(super) fn login_page(&self, head: &Parts) -> Response<PageBody> {
        if self.services.is_open() {
            return answer::redirect("/", None);
        }
        let query = FormFields::parse(head.uri.query().unwrap_or_default().as_bytes());
        login_form(StatusCode::OK, query.get("next"), None)
    }

    /// Starts a session for a token.
    pub(super) async fn log_in(&self, form: &FormFields) -> Response<PageBody> {
        let next = local(form.get("next"));
        if self.services.is_open() {
            return answer::redirect(next, None);
        }
        let token = Token::new(form.get("token"));
        let caller = token.as_ref().map(|token| self.in_process(Some(token), "").caller());
        let (Some(token), Some(Ok(caller))) = (token, caller) else {
            let Ok(permit) = TRIES.try_acquire() else {
                let error = "too many wrong tokens at the moment; try again in a second";
                return login_form(StatusCode::TOO_MANY_REQUESTS, next, Some(error));
            };
            // The permit is kept for the whole second, even if the visitor disconnects.
            let held = tokio::spawn(async move {
                sleep(WRONG_TOKEN_TIME).await;
                drop(permit);
            });
            let _ = held.await;
            let error = "no caller of this server has this token";
            return login_form(StatusCode::UNAUTHORIZED, next, Some(error));
        };
        let Some(id) = self.sessions.start(token, &caller.map(|caller| caller.name)) else {
            let error = "the operating system returned no random numbers; try again";
            return login_form(StatusCode::INTERNAL_SERVER_ERROR, next, Some(error));
        };
        answer::redirect(next, cookies::set(cookies::SESSION, &id, sessions::AGE_MAX.as_secs()))
    }

    /// Ends the session.
    pub(super) fn log_out(&self, headers: &HeaderMap) -> Response<PageBody> {
        cookies::all(headers, cookies::SESSION).for_each(|id| self.sessions.end(id));
        answer::redirect("/login", cookies::set(cookies::SESSION, "", 0))
    }

    /// Sets the namespace of the session. Each call checks whether its caller may use it.
    pub(super) fn choose_namespace(
        &self,
        headers: &HeaderMap,
        form: &FormFields,
    ) -> Response<PageBody> {
        let namespace = form.get("namespace").trim();
        if !namespace.is_empty() && Namespace::parse(namespace.as_bytes()).is_err() {
            let reason = cookies::message(false, "invalid namespace");
            return answer::redirect("/", cookies::set(cookies::MESSAGE, &reason, 60));
        }
        for id in cookies::all(headers, cookies::SESSION) {
            let Some(session) = self.sessions.get(id) else { continue };
            let caller = self.in_process(Some(&session.token), "").caller().ok().flatten();
            if !caller.is_some_and(|caller| caller.chooses_namespace) {
                let reason = "this caller is limited to one namespace";
                return answer::refusal(StatusCode::FORBIDDEN, reason);
            }
            self.sessions.choose(id, namespace);
        }
        answer::redirect("/", None)
    }
}
