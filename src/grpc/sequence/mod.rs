//! `SequenceService`.

mod allot;
mod convert;
mod parse;

use std::{sync::Arc, time::Instant};

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline,
    pb::{
        self,
        sequence_service_server::{SequenceService, SequenceServiceServer},
    },
    unary::unary,
};
use crate::{
    decision::error::Error,
    engine::{Engine, coalescer::Coalescer},
    sequence::{Allocation, GetSequence, NextSequence, Sequences},
};
use allot::{Allot, Given};

/// Maximum message size, bytes: more than all names together.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The sequence service of an engine.
#[derive(Debug)]
pub struct Sequence {
    engine: Arc<Engine>,
    sequences: Arc<Sequences>,
    coalescer: Arc<Coalescer<NextSequence, Allot>>,
    given: Arc<Given>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Sequence {
    /// Name of the service in health checks.
    pub const NAME: &'static str = "tollgate.v1.SequenceService";

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>, sequences: Arc<Sequences>) -> Sequence {
        let given = Arc::new(Given::default());
        let coalescer = Coalescer::new(Allot::new(engine.clone(), given.clone()));
        Sequence { engine, sequences, coalescer, given }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<Sequence>) -> SequenceServiceServer<Sequence> {
        SequenceServiceServer::from_arc(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    /// Takes the values of a request: on Redis through the coalescer, which combines requests of
    /// one sequence.
    async fn allot(&self, next: &mut NextSequence, deadline: Instant) -> Result<Allocation, Error> {
        self.engine.admit()?;
        if self.engine.is_remote() {
            // Boxed, to keep the futures of calls that this process decides below 1 KiB.
            return Box::pin(self.coalescer.run(next.clone(), deadline)).await;
        }
        // The embedded engine cannot fail over, so reserving values would have no use.
        next.reserve = None;
        let allocation = self.engine.run(next, deadline).await?;
        self.given.note(&allocation);
        Ok(allocation)
    }
}

unary!(Sequence, MESSAGE_BYTES_MAX, {
    "NextSequence" => next_sequence,
});

#[tonic::async_trait]
impl SequenceService for Sequence {
    async fn next_sequence(
        &self,
        request: Request<pb::NextSequenceRequest>,
    ) -> Answer<pb::NextSequenceResponse> {
        let deadline = deadline::of(&request);
        let mut next = parse::next_sequence(request.into_inner(), &self.sequences)?;
        let allocation = self.allot(&mut next, deadline).await?;
        Ok(Response::new(convert::next_sequence(&allocation, &next.sequence)?))
    }

    async fn get_sequence(
        &self,
        request: Request<pb::GetSequenceRequest>,
    ) -> Answer<pb::GetSequenceResponse> {
        let deadline = deadline::of(&request);
        let sequence = parse::get_sequence(request.into_inner(), &self.sequences)?;
        let get = GetSequence { sequence };
        let last = self.engine.run(&get, deadline).await?;
        Ok(Response::new(convert::get_sequence(last, &get.sequence, self.given.counts())))
    }
}
