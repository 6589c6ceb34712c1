//! The common parts of ListLocks, ListSequences and ListStock.

use bytes::Bytes;
use tonic::Status;

use super::{fields::Fields, page_token, scope::Scope};
use tollgate_core::names::{NAME_BYTES_MAX, Name};
use tollgate_engine::NameQuery;

/// Parses a request: prefix, page size and page token.
pub(super) fn parse(
    scope: Scope,
    prefix: Bytes,
    page_size: Option<u32>,
    page_token: &[u8],
) -> Result<NameQuery, Status> {
    let namespace = scope.namespace().clone();
    let mut fields = Fields::new(scope);
    let prefix = fields.text("prefix", prefix, NAME_BYTES_MAX);
    let limit = fields.page_size(page_size);
    let after = page_token::decode(&mut fields, page_token);
    fields.finish(Some(NameQuery { namespace, prefix, limit, after }))
}

/// Returns the name of a listed partition; `None` if the caller may not use it, or if it is not a
/// valid name.
pub(super) fn permitted(scope: &Scope, partition: Bytes) -> Option<Name> {
    Name::stored(partition).ok().filter(|name| scope.permits(name))
}
