//! Metadata that a call may contain only once.

use tollgate_client::pb::{self, admission_service_client::AdmissionServiceClient};
use tonic::{Code, Request, Status, transport::Channel};

use super::callers::{entry, start};
use crate::support::access::{Token, reason};

/// Calls GetPool with these metadata.
async fn call(channel: &Channel, metadata: &[(&'static str, &str)]) -> Result<(), Status> {
    let mut request = Request::new(pb::GetPoolRequest { pool: "p".into() });
    for (name, value) in metadata {
        request.metadata_mut().append(*name, value.parse().unwrap());
    }
    AdmissionServiceClient::new(channel.clone()).get_pool(request).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn j17_repeated_credentials_and_namespaces_are_refused_on_a_warm_connection_too() {
    let (one, other) = (Token::new(), Token::new());
    let config = [("a", &one), ("b", &other)]
        .map(|(name, token)| entry(name, token) + "namespace = \"*\"\n")
        .concat();
    let server = start(&config).await;
    let address = server.server.address();
    let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
    let (one, other) = (one.bearer(), other.bearer());
    let refused = async |metadata: &[(&'static str, &str)]| {
        let (code, reason, _) = reason(&call(&channel, metadata).await.unwrap_err());
        (code, reason)
    };
    let malformed = (Code::Unauthenticated, "AUTHORIZATION_MALFORMED".to_owned());
    let ambiguous = (Code::InvalidArgument, "NAMESPACE_MALFORMED".to_owned());
    let (token, namespace) = ("authorization", "x-tollgate-namespace");
    for _ in 0..2 {
        for second in [&*one, &*other, "Bearer x", ""] {
            assert_eq!(refused(&[(token, &one), (token, second)]).await, malformed, "{second}");
        }
        for second in ["acme", "beta", ""] {
            let metadata = [(token, &*one), (namespace, "acme"), (namespace, second)];
            assert_eq!(refused(&metadata).await, ambiguous, "{second}");
        }
        // The connection remembers the credentials from now on.
        call(&channel, &[(token, &one), (namespace, "acme")]).await.unwrap();
    }
}
