//! Changed rules apply to the next call, without a restart.

use std::time::Duration;

use tollgate_client::pb;

use super::{Reloads, pool};
use crate::support::{
    access::{Token, calls, reason},
    certificates::{Authority, RELOADED, TlsServer},
    process::run,
    rates::under,
    requests::patient,
};

const POLICY: &str = "[[policy]]\nname = \"otp\"\n[[policy.limit]]\nmax = MAX\nwindow = \"1h\"\n";
const SEQUENCE: &str = "[[sequence]]\nmatch = \"order\"\nlayout = \"LAYOUT\"\n";

fn policy(max: u32) -> String {
    POLICY.replace("MAX", &max.to_string())
}

fn sequence(layout: &str) -> String {
    SEQUENCE.replace("LAYOUT", layout)
}

async fn serial(reloads: &Reloads) -> String {
    let request = pb::NextSequenceRequest { name: "order".into(), ..Default::default() };
    let answer = reloads.world.sequences.clone().next_sequence(patient(request)).await;
    answer.unwrap().into_inner().serials.remove(0)
}

async fn policies_and_sequences_come_from_the_new_file(redis: bool) {
    let reloads = Reloads::start(redis, &(policy(1) + &sequence("A-{n:04}"))).await;
    let passes = async || {
        let request = under("key", "otp");
        let answer = reloads.world.rates.clone().check_rate(patient(request)).await;
        answer.map(|answer| answer.into_inner().allowed)
    };
    assert_eq!((passes().await.unwrap(), passes().await.unwrap()), (true, false));
    assert_eq!(serial(&reloads).await, "A-0001");
    reloads.write(&(policy(2) + &sequence("B-{n:06}")));
    let changed = reloads.reload().await;
    assert!(changed.contains("policy[\"otp\"].limit[0].max: 1 -> 2"), "{changed}");
    assert!(
        changed.contains("sequence[\"order\"].layout: \"A-{n:04}\" -> \"B-{n:06}\""),
        "{changed}"
    );
    assert!(passes().await.unwrap());
    assert_eq!(serial(&reloads).await, "B-000002");
    // A policy that is removed is unknown.
    reloads.write(&sequence("B-{n:06}"));
    reloads.reload().await;
    assert_eq!(passes().await.unwrap_err().code(), tonic::Code::NotFound);
}

mod embedded {
    #[tokio::test(flavor = "multi_thread")]
    async fn policies_and_sequences_come_from_the_new_file() {
        super::policies_and_sequences_come_from_the_new_file(false).await;
    }
}

mod redis {
    #[tokio::test(flavor = "multi_thread")]
    async fn policies_and_sequences_come_from_the_new_file() {
        super::policies_and_sequences_come_from_the_new_file(true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_changes_without_a_restart() {
    let reloads = Reloads::with(false, "log_level = \"info\"\n", &pool("p", 1), &[]).await;
    let refuse = async || {
        reloads.world.admit("p", "d", "one").await;
        reloads.world.admit("p", "d", "two").await;
    };
    refuse().await;
    assert!(!reloads.files().log().contains("DEBUG"), "{}", reloads.files().log());
    reloads.write_with("log_level = \"debug\"\n", &pool("p", 1));
    reloads.reload().await;
    refuse().await;
    reloads.files().logged("DEBUG", 1).await;
    reloads.write_with("log_level = \"warn\"\n", &pool("p", 1));
    assert!(reloads.reload().await.contains("log_level: \"debug\" -> \"warn\""));
    let lines = reloads.files().log().matches("DEBUG").count();
    refuse().await;
    assert_eq!(reloads.files().log().matches("DEBUG").count(), lines);
}

/// The differences and the log show no digest and no token.
#[tokio::test(flavor = "multi_thread")]
async fn callers_and_namespaces_change_and_no_credential_is_shown() {
    let reloads = Reloads::start(false, &pool("p", 1)).await;
    let (old, new) = (Token::new(), Token::new());
    let caller = |token: &Token| {
        format!(
            "[[caller]]\nname = \"ops\"\ntoken_sha256 = [\"{}\"]\nallow = [\"use\", \"read\", \
             \"manage\"]\n",
            token.digest
        )
    };
    let channel = tonic::transport::Channel::from_shared(reloads.world.address.clone());
    let channel = channel.unwrap().connect().await.unwrap();
    let next = calls("n").into_iter().find(|call| call.method == "NextSequence").unwrap();
    next.make(&channel, &[]).await.unwrap();

    reloads.write(&caller(&old));
    let shown = reloads.reload().await;
    assert!(shown.contains("caller[\"ops\"].token_sha256: not set -> …"), "{shown}");
    let refused = next.make(&channel, &[]).await.unwrap_err();
    assert_eq!(reason(&refused).1, "CREDENTIALS_MISSING");
    let as_caller =
        async |token: &Token| next.make(&channel, &[("authorization", &token.bearer())]).await;
    as_caller(&old).await.unwrap();

    // The command needs a token now.
    let refused = reloads.command(&["reload"]).await;
    assert_eq!(refused.status.code(), Some(69));
    reloads.files().write("token", &old.text);
    let token_file = reloads.files().text("token");
    let limit = "[[namespace]]\nmatch = \"*\"\ncalls_per_second = 1\n";
    reloads.write(&(caller(&new) + limit));
    let output = reloads.command(&["reload", "--token-file", &token_file]).await;
    let shown = super::printed(&output);
    let shown = shown + &super::errors(&output) + &reloads.files().log();
    assert!(shown.contains("token_sha256"), "{shown}");
    for secret in [&old.digest, &new.digest, &old.text, &new.text] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert_eq!(reason(&as_caller(&old).await.unwrap_err()).1, "TOKEN_UNKNOWN");
    let limited = async {
        loop {
            match as_caller(&new).await {
                Err(refused) if reason(&refused).1 == "NAMESPACE_LIMIT" => return,
                answer => drop(answer.unwrap()),
            }
        }
    };
    tokio::time::timeout(super::PATIENCE, limited).await.expect("the limit applies");
}

/// A certificate that expires in use must not keep an operator from changing other keys.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_in_use_stops_no_reload() {
    let ours = Authority::new("ours");
    let server = TlsServer::start(&ours.expiring(15), &pool("p", 3)).await;
    server.client(&ours.pem(), None).await.unwrap();
    let expired = async {
        // From then on, clients refuse the certificate.
        while server.client(&ours.pem(), None).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(super::PATIENCE, expired).await.expect("the certificate expires");
    server.files.configure(&pool("p", 4));
    server.reload().await;
    // Another expired certificate is an error.
    server.files.write_leaf(&ours.expired());
    server.server.process.signal("-HUP");
    server.files.logged("the configuration was not reloaded", 1).await;
}

/// Certificates are a part of the configuration: shown by their digests, replaced with the rest.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_reloaded_with_the_rest_of_the_configuration() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = TlsServer::start(&old.server(), &pool("p", 3)).await;
    let (url, both) = (server.url(), old.pem() + &new.pem());
    server.files.write("both.crt", &both);
    let ca = server.files.text("both.crt");
    let command = async |arguments: &[&str]| {
        run(&[arguments, &["--server", &url, "--tls-ca", &ca]].concat()).await
    };
    let capacity = async || {
        let mut client = server.client(&both, None).await.unwrap();
        let request = patient(pb::GetPoolRequest { pool: "p".into() });
        client.get_pool(request).await.unwrap().into_inner().pool.unwrap().usage.unwrap().capacity
    };
    // The key does not fit the certificate.
    server.files.write("tls.crt", &new.server().cert);
    server.files.configure(&pool("p", 4));
    let output = command(&["reload"]).await;
    assert_eq!(output.status.code(), Some(78), "{}", super::errors(&output));
    for part in ["tls.key = \"", "not the key of tls.cert", "(line 3)"] {
        assert!(super::errors(&output).contains(part), "{}", super::errors(&output));
    }
    assert_eq!(capacity().await, 3);

    server.files.write_leaf(&new.server());
    let output = command(&["reload"]).await;
    let shown = super::printed(&output);
    // Unless the check of the contents came first.
    if server.files.log().matches(RELOADED).count() == 1 {
        for part in ["tls.cert: \"", "(SHA-256 ", "tls.key: \"", "].capacity: 3 -> 4"] {
            assert!(shown.contains(part), "no `{part}` in {shown}{}", super::errors(&output));
        }
    }
    assert!(!shown.contains("PRIVATE"), "{shown}");
    assert_eq!(capacity().await, 4);
    server.client(&new.pem(), None).await.unwrap();
    server.client(&old.pem(), None).await.unwrap_err();
}
