//! Requests for serial numbers, and calls of a world.

use std::time::Duration;

use tollgate_client::pb;

use crate::support::{
    process::Server,
    world::{Sequences, World},
};

/// The layouts of the tests, by the names of sequences.
pub const LAYOUTS: &str = r#"
[[sequence]]
match = "stamp*"
layout = "timestamp17"
[[sequence]]
match = "day*"
layout = "ORD-{yyyyMMdd}-{n:06}"
[[sequence]]
match = "few*"
layout = "{yyyyMMdd}/{n:02}"
[[sequence]]
match = "month*"
layout = "{yyyyMM}-{n:02}"
[[sequence]]
match = "year*"
layout = "{yy}{n:03}"
[[sequence]]
match = "wide*"
layout = "{n:017}"
[[sequence]]
match = "east*"
layout = "timestamp17"
utc_offset = "+08:00"
"#;

pub fn next(name: &str) -> pb::NextSequenceRequest {
    pb::NextSequenceRequest { name: name.into(), ..pb::NextSequenceRequest::default() }
}

pub fn many(count: u32, request: pb::NextSequenceRequest) -> pb::NextSequenceRequest {
    pb::NextSequenceRequest { count: Some(count), ..request }
}

pub fn step(step: i64, request: pb::NextSequenceRequest) -> pb::NextSequenceRequest {
    pb::NextSequenceRequest { step: Some(step), ..request }
}

pub fn floor(floor: u64, request: pb::NextSequenceRequest) -> pb::NextSequenceRequest {
    pb::NextSequenceRequest { floor: Some(floor), ..request }
}

pub fn named(id: &str, request: pb::NextSequenceRequest) -> pb::NextSequenceRequest {
    pb::NextSequenceRequest { request_id: id.into(), ..request }
}

/// Returns a request with a deadline of 30 s, since the machine may be busy.
pub fn patient(request: pb::NextSequenceRequest) -> tonic::Request<pb::NextSequenceRequest> {
    let mut request = tonic::Request::new(request);
    request.set_timeout(Duration::from_secs(30));
    request
}

/// Allocates values. The error is the gRPC status.
pub async fn try_next(
    client: &Sequences,
    request: pb::NextSequenceRequest,
) -> Result<pb::NextSequenceResponse, tonic::Status> {
    client.clone().next_sequence(request).await.map(tonic::Response::into_inner)
}

/// Returns a client of a server, after the server has given out a value of `name`.
pub async fn answering(server: &Server, name: &str) -> Sequences {
    let client = Sequences::connect(server.address()).await.unwrap();
    let answered = async {
        while let Err(status) = try_next(&client, next(name)).await {
            println!("{name}: {status:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), answered).await.expect("the server answers");
    client
}

impl World {
    pub async fn next(&self, request: pb::NextSequenceRequest) -> pb::NextSequenceResponse {
        try_next(&self.sequences, request).await.unwrap()
    }

    /// Returns the value of a request for one value.
    pub async fn one(&self, request: pb::NextSequenceRequest) -> u64 {
        let response = self.next(request).await;
        assert_eq!(response.first, response.last, "{response:?}");
        response.first
    }

    pub async fn refused(&self, request: pb::NextSequenceRequest) -> tonic::Status {
        try_next(&self.sequences, request).await.unwrap_err()
    }

    pub async fn sequence(&self, name: &str) -> pb::GetSequenceResponse {
        let request = pb::GetSequenceRequest { name: name.into() };
        self.sequences.clone().get_sequence(request).await.unwrap().into_inner()
    }
}
