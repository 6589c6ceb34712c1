//! Odd files: envoyproxy/ratelimit and Tollgate accept the same files, and read the same rule from
//! each.

use tollgate_core::envoy::EnvoySettings;

use super::{Peer, root};
use crate::{
    api::{descriptor, request, should_rate_limit},
    service::rules,
    support::process::OwnRedis,
};

/// Returns a file with this text after its key, and `key: value` lines of its rule and of its
/// limit.
fn file(rule: &str, limit: &str) -> String {
    format!(
        "domain: d\ndescriptors:\n  - key: a\n    {rule}\n    rate_limit:\n      unit: year\n      {limit}\n"
    )
}

/// Returns the files, and the limit and shadow mode that both read; `None` if both refuse the file.
fn files() -> Vec<(String, Option<(u32, bool)>)> {
    let limits = [
        ("010", Some(8)),
        ("0x10", Some(16)),
        ("0b11", Some(3)),
        ("1_000", Some(1000)),
        ("+7", Some(7)),
        ("", Some(0)),
        ("~", Some(0)),
        ("4294967295", Some(u32::MAX)),
        ("4294967296", None),
        ("-1", None),
        ("1.5", None),
        ("09", None),
        ("\"5\"", None),
        ("'5'", None),
        ("five", None),
        ("yes", None),
        ("[5]", None),
    ];
    let limits = limits.map(|(text, limit)| {
        let read = limit.map(|limit| (limit, false));
        (file("value: ''", &format!("requests_per_unit: {text}")), read)
    });
    let flags = [
        ("true", Some(true)),
        ("yes", Some(true)),
        ("On", Some(true)),
        ("False", Some(false)),
        ("", Some(false)),
        ("\"true\"", None),
        ("'no'", None),
        ("1", None),
        ("tru", None),
        ("{}", None),
    ];
    let flags = flags.map(|(text, flag)| {
        (file(&format!("shadow_mode: {text}"), "requests_per_unit: 0"), flag.map(|flag| (0, flag)))
    });
    let one = file("value: ''", "requests_per_unit: 3");
    let two = one.replace("domain: d", "domain: e");
    let several = [
        (format!("{one}---\n{two}"), Some((3, false))),
        (format!("---\n{one}...\n---\n[ not YAML"), Some((3, false))),
    ];
    limits.into_iter().chain(flags).chain(several).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn j35_odd_files_are_read_as_by_the_peer() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    for (text, expected) in files() {
        let ours = rules(&[&text], EnvoySettings::default());
        let read = ours.as_ref().ok().map(|rules| {
            let found = rules.domain(b"d").unwrap().find([(&b"a"[..], &b"1"[..])].into_iter());
            let rule = found.unwrap().rule;
            (rule.requests_per_unit, rule.shadow_mode)
        });
        assert_eq!(read, expected, "{text}\n{:?}", ours.err());
        let root = root(&[("d.yaml".to_owned(), text.clone())]);
        let Some(peer) = Peer::start(root.path(), &redis, &[("CACHE_KEY_PREFIX", &random())]).await
        else {
            return;
        };
        let theirs = should_rate_limit(&peer.channel, request("d", &[descriptor("a=1")])).await;
        let theirs = theirs.ok().and_then(|answer| {
            let status = answer.statuses[0].clone();
            // A rule in shadow mode without any hits left is OK.
            let is_shadow = status.code == crate::api::OK;
            let limit = status.current_limit?.requests_per_unit;
            Some((limit, limit == 0 && is_shadow))
        });
        assert_eq!(theirs, expected, "{text}");
    }
}

/// Returns a prefix of its own for each peer.
fn random() -> String {
    format!("{}_", rand::random::<u64>())
}
