//! A page: a title, and parts in their order.

use std::sync::Arc;

use askama::Template;
use hyper::StatusCode;
use tonic::{Code, Status};

use tollgate_core::time::Timestamp;

/// A page of the console.
#[derive(Debug, Clone)]
pub(super) struct ConsolePage {
    pub(super) title: String,
    pub(super) parts: Vec<PagePart>,
    /// Why parts are missing, if the store did not answer.
    pub(super) lack: Option<String>,
}

/// A part of a page: an HTML element with an id.
#[derive(Debug, Clone)]
pub(super) struct PagePart {
    /// The id of the element, unique in its page.
    pub(super) id: &'static str,
    pub(super) html: Arc<str>,
    /// Whether the script replaces the contents when they change.
    pub(super) is_live: bool,
}

/// A rendered page, and the time of its contents if they are not current.
#[derive(Debug)]
pub(super) struct RenderedPage {
    pub(super) page: Arc<ConsolePage>,
    pub(super) as_of: Option<Timestamp>,
}

/// Why a page or an action fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// The session or its token has ended.
    SignedOut(String),
    /// The caller lacks a right.
    Forbidden(String),
    /// The store did not answer.
    Store(String),
    /// A limit is reached.
    Busy(String),
    /// There is no such page or object.
    Absent(String),
    /// A field of the form is wrong.
    Invalid(String),
    /// Anything else.
    Failed(String),
}

impl ConsolePage {
    /// Creates a page without parts.
    pub(super) fn new(title: impl Into<String>) -> ConsolePage {
        ConsolePage { title: title.into(), parts: Vec::new(), lack: None }
    }

    /// Adds a part that does not change.
    pub(super) fn fixed(
        self,
        id: &'static str,
        part: &impl Template,
    ) -> Result<ConsolePage, Problem> {
        self.with(id, part, false)
    }

    /// Adds a part whose contents change.
    pub(super) fn live(
        self,
        id: &'static str,
        part: &impl Template,
    ) -> Result<ConsolePage, Problem> {
        self.with(id, part, true)
    }

    fn with(
        mut self,
        id: &'static str,
        part: &impl Template,
        is_live: bool,
    ) -> Result<ConsolePage, Problem> {
        let html = part.render()?.into();
        self.parts.push(PagePart { id, html, is_live });
        Ok(self)
    }

    /// Marks parts as missing, because the store did not answer.
    pub(super) fn lacking(self, why: String) -> ConsolePage {
        ConsolePage { lack: Some(why), ..self }
    }

    /// Returns the page with its parts so far if the call failed because of the store, or else the
    /// problem.
    pub(super) fn lacking_or(self, status: Status) -> Result<ConsolePage, Problem> {
        match status.into() {
            Problem::Store(why) => Ok(self.lacking(why)),
            problem => Err(problem),
        }
    }

    /// Fills in missing parts from an earlier rendering of the page.
    pub(super) fn completed(mut self, earlier: &ConsolePage) -> ConsolePage {
        let parts = earlier.parts.iter().map(|part| {
            let newer = self.parts.iter().find(|newer| newer.id == part.id);
            newer.unwrap_or(part).clone()
        });
        self.parts = parts.collect();
        self.title.clone_from(&earlier.title);
        self
    }
}

impl Problem {
    /// Returns the HTTP status of the response.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Problem::SignedOut(_) => StatusCode::UNAUTHORIZED,
            Problem::Forbidden(_) => StatusCode::FORBIDDEN,
            Problem::Store(_) | Problem::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Problem::Absent(_) => StatusCode::NOT_FOUND,
            Problem::Invalid(_) => StatusCode::BAD_REQUEST,
            Problem::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the message for the user.
    pub(super) fn message(&self) -> &str {
        match self {
            Problem::SignedOut(message)
            | Problem::Forbidden(message)
            | Problem::Store(message)
            | Problem::Busy(message)
            | Problem::Absent(message)
            | Problem::Invalid(message)
            | Problem::Failed(message) => message,
        }
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Problem {
        let message = status.message().to_owned();
        match status.code() {
            Code::Unauthenticated => Problem::SignedOut(message),
            Code::PermissionDenied => Problem::Forbidden(message),
            Code::Unavailable | Code::DeadlineExceeded => Problem::Store(message),
            Code::ResourceExhausted => Problem::Busy(message),
            Code::NotFound => Problem::Absent(message),
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
                Problem::Invalid(message)
            }
            _ => Problem::Failed(message),
        }
    }
}

impl From<askama::Error> for Problem {
    fn from(error: askama::Error) -> Problem {
        Problem::Failed(format!("the page cannot be written: {error}"))
    }
}
