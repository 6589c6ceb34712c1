//! `SequenceService`: unique values, as numbers and as serials.
//!
//! GetSequence also returns two counters of this server: the values that it has allocated and the
//! script calls for them. Their quotient shows how many values the coalescer allocates in a script
//! call.

mod convert;
mod parse;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    access, deadline, name_listing, page_token,
    pb::{
        self,
        sequence_service_server::{SequenceService, SequenceServiceServer},
    },
    rules::CurrentRules,
    status::from_error,
};
use tollgate_core::{
    Decision,
    names::Namespace,
    sequence::{Allocation, GetSequence, NextSequence, Sequence},
};
use tollgate_engine::Engine;
use tollgate_telemetry::line_pace::LinePace;

/// Limits audit lines about floors of NextSequence to 20 per second, since a caller can cause them
/// at any rate.
static FLOORS: LinePace = LinePace::new(20, Duration::from_secs(1));

/// The sequence service of an engine.
#[derive(Debug)]
pub struct SequenceHandlers {
    pub(super) engine: Arc<Engine>,
    /// The configured rules, for the layouts of sequences.
    rules: Arc<CurrentRules>,
    /// The number of values that this server has issued in the default namespace.
    given: AtomicU64,
}

type Answer<T> = Result<Response<T>, Status>;

impl SequenceHandlers {
    /// Maximum message size, bytes: more than all names together.
    pub(super) const MESSAGE_BYTES_MAX: usize = 64 * 1024;

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>, rules: Arc<CurrentRules>) -> SequenceHandlers {
        SequenceHandlers { engine, rules, given: AtomicU64::new(0) }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<SequenceHandlers>) -> SequenceServiceServer<SequenceHandlers> {
        SequenceServiceServer::from_arc(self)
            .max_decoding_message_size(Self::MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }
}

#[tonic::async_trait]
impl SequenceService for SequenceHandlers {
    async fn next_sequence(
        &self,
        request: Request<pb::NextSequenceRequest>,
    ) -> Answer<pb::NextSequenceResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let floor = request.floor.map(|floor| (scope.origin(), floor));
        let next = parse::next_sequence(request, scope, &self.rules.load().sequences)?;
        let allocation =
            self.engine.submit_merged(&next, deadline).await.map_err(from_error)?.outcome;
        // Callers must not learn how many values other namespaces use.
        if let Allocation::Given { range, replayed: false, .. } = &allocation
            && Namespace::DEFAULT.contains(next.partition())
        {
            self.given.fetch_add(range.count, Ordering::Relaxed);
        }
        let answer = convert::next_sequence(&allocation, &next.sequence)?;
        if let Some((origin, floor)) = floor
            && answer.floor_applied
            && !answer.replayed
            && let Some(suppressed) = FLOORS.due()
        {
            access::audit_floor(&origin, "NextSequence", &next.sequence, floor, suppressed);
        }
        Ok(Response::new(answer))
    }

    async fn set_sequence_floor(
        &self,
        request: Request<pb::SetSequenceFloorRequest>,
    ) -> Answer<pb::SetSequenceFloorResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let (origin, floor) = (scope.origin(), request.floor.unwrap_or_default());
        let set = parse::set_sequence_floor(request, scope, &self.rules.load().sequences)?;
        let answer = self.engine.submit(&set, deadline).await.map_err(from_error)?.outcome;
        let answer = convert::set_sequence_floor(answer, &set.sequence)?;
        if answer.applied {
            access::audit_floor(&origin, "SetSequenceFloor", &set.sequence, floor, 0);
        }
        Ok(Response::new(answer))
    }

    async fn get_sequence(
        &self,
        request: Request<pb::GetSequenceRequest>,
    ) -> Answer<pb::GetSequenceResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let is_default = scope.namespace().is_default();
        let sequence = parse::get_sequence(request, scope, &self.rules.load().sequences)?;
        let get = GetSequence { sequence };
        let last = self.engine.submit(&get, deadline).await.map_err(from_error)?.outcome;
        let counts = if is_default {
            let given = self.given.load(Ordering::Relaxed);
            (given, self.engine.script_calls::<NextSequence>())
        } else {
            (0, 0)
        };
        Ok(Response::new(convert::get_sequence(last, &get.sequence, counts)))
    }

    async fn list_sequences(
        &self,
        request: Request<pb::ListSequencesRequest>,
    ) -> Answer<pb::ListSequencesResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let pb::ListSequencesRequest { prefix, page_size, page_token } = request;
        let query = name_listing::parse(scope.clone(), prefix, page_size, &page_token)?;
        let rules = self.rules.load();
        let read = |partition: Bytes| {
            let name = name_listing::permitted(&scope, Sequence::name_of(&partition))?;
            let sequence = parse::sequence(&name, &rules.sequences);
            // A name with another layout is another sequence.
            (sequence.partition() == partition).then_some(GetSequence { sequence })
        };
        let (entries, next) =
            self.engine.list_names(&query, deadline, read).await.map_err(from_error)?;
        let next_page_token = page_token::encode(&query.namespace, next.as_ref());
        Ok(Response::new(convert::sequence_page(entries, next_page_token)))
    }
}
