//! Parses the requests of a batch. An invalid request affects only its own result.

use std::ops::RangeInclusive;

use tonic::Status;

use super::{
    super::super::{elements::bounds, fields::Fields, pb, scope::Scope},
    admit, complete, renew,
};
use tollgate_core::{
    admission::{AdmitTask, Catalog, CompleteTask, RenewTask, Settings},
    names::Name,
};

/// The parsed requests of a batch.
#[derive(Debug)]
pub(in crate::grpc::admission) struct Items<D> {
    /// The decisions for the valid requests, in order.
    pub(in crate::grpc::admission) decisions: Vec<D>,
    /// The errors of the other requests with their positions, in order.
    pub(in crate::grpc::admission) invalid: Vec<(usize, Status)>,
}

impl<D> Items<D> {
    /// Returns the number of requests.
    pub(in crate::grpc::admission) fn len(&self) -> usize {
        self.decisions.len() + self.invalid.len()
    }
}

/// Looks up the settings of pools, once for consecutive requests for one pool.
struct LastSettings<'c> {
    catalog: &'c Catalog,
    last: Option<(Name, Settings)>,
}

impl LastSettings<'_> {
    fn lookup(&mut self, pool: &Name) -> Settings {
        match &self.last {
            Some((last, settings)) if last == pool => *settings,
            _ => {
                let settings = self.catalog.settings(pool);
                self.last = Some((pool.clone(), settings));
                settings
            }
        }
    }
}

/// Parses requests for slots, none of which may wait.
pub(in crate::grpc::admission) fn admit_tasks(
    request: pb::AdmitTasksRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<Items<AdmitTask>, Status> {
    let requests = (request.requests, bounds::ADMIT_TASKS_REQUEST_REQUESTS);
    items(requests, scope, catalog, |fields, mut request, settings| {
        if request.max_wait.take().is_some() {
            fields.violation("max_wait", "is not allowed in a batch");
        }
        admit(fields, request, |pool| settings.lookup(pool))
    })
}

/// Parses results.
pub(in crate::grpc::admission) fn complete_tasks(
    request: pb::CompleteTasksRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<Items<CompleteTask>, Status> {
    let requests = (request.requests, bounds::COMPLETE_TASKS_REQUEST_REQUESTS);
    items(requests, scope, catalog, |fields, request, settings| {
        complete(fields, request, |pool| settings.lookup(pool))
    })
}

/// Parses renewals.
pub(in crate::grpc::admission) fn renew_tasks(
    request: pb::RenewTasksRequest,
    scope: Scope,
    catalog: &Catalog,
) -> Result<Items<RenewTask>, Status> {
    let requests = (request.requests, bounds::RENEW_TASKS_REQUEST_REQUESTS);
    items(requests, scope, catalog, |fields, request, settings| {
        renew(fields, request, |pool| settings.lookup(pool))
    })
}

/// Parses the requests. The call fails if their number is out of range.
fn items<Q, D>(
    (requests, bound): (Vec<Q>, RangeInclusive<usize>),
    scope: Scope,
    catalog: &Catalog,
    mut parse: impl FnMut(&mut Fields, Q, &mut LastSettings<'_>) -> Option<D>,
) -> Result<Items<D>, Status> {
    let mut fields = Fields::new(scope);
    if !fields.elements("requests", requests.len(), bound) {
        return fields.finish(None);
    }
    let mut settings = LastSettings { catalog, last: None };
    let mut items = Items { decisions: Vec::with_capacity(requests.len()), invalid: Vec::new() };
    for (i, request) in requests.into_iter().enumerate() {
        let parsed = parse(&mut fields, request, &mut settings);
        match fields.finish_item(format_args!("requests[{i}]."), parsed) {
            Ok(decision) => items.decisions.push(decision),
            Err(invalid) => items.invalid.push((i, invalid)),
        }
    }
    Ok(items)
}
