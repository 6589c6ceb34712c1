//! The configurations of envoyproxy/ratelimit's README, and what it says about them.

use tollgate_status::metrics::METRICS;

use crate::api::request;
use crate::{
    api::{OK, OVER, descriptor},
    service::{Service, codes, rules},
};

/// A configuration, and requests: descriptors, the number of calls, and how many pass.
type Example = (&'static str, &'static [(&'static [&'static str], usize, usize)]);

const EXAMPLES: [Example; 7] = [
    (
        "domain: messaging\ndescriptors:\n  - key: message_type\n    value: marketing\n    descriptors:\n      \
         - key: to_number\n        rate_limit:\n          unit: day\n          requests_per_unit: 5\n  \
         - key: to_number\n    rate_limit:\n      unit: day\n      requests_per_unit: 100\n",
        &[
            (&["message_type=marketing,to_number=2061111111", "to_number=2061111111"], 9, 5),
            (&["message_type=marketing,to_number=2062222222"], 9, 5),
            (&["message_type=other,to_number=2062222222", "to_number=2063333333"], 150, 100),
            (&["to_number=2061111111"], 150, 91),
        ],
    ),
    (
        "domain: edge_proxy_per_ip\ndescriptors:\n  - key: remote_address\n    rate_limit:\n      unit: \
         second\n      requests_per_unit: 10\n  - key: remote_address\n    value: 50.0.0.5\n    \
         rate_limit:\n      unit: second\n      requests_per_unit: 0\n",
        &[(&["remote_address=50.0.0.1"], 12, 10), (&["remote_address=50.0.0.5"], 3, 0)],
    ),
    (
        "domain: example4\ndescriptors:\n  - key: key\n    value: value\n    rate_limit:\n      \
         requests_per_unit: 3\n      unit: second\n",
        &[(&["key=value,subkey=subvalue"], 9, 9), (&["key=value"], 9, 3)],
    ),
    (
        "domain: internal\ndescriptors:\n  - key: ldap\n    rate_limit:\n      unlimited: true\n\n  - key: \
         azure\n    rate_limit:\n      unit: minute\n      requests_per_unit: 100\n",
        &[(&["ldap=x"], 120, 120), (&["azure=x"], 120, 100)],
    ),
    (
        "domain: example6\ndescriptors:\n  - key: service\n    descriptors:\n      - key: user\n        \
         value: user-a\n        rate_limit:\n          requests_per_unit: 10\n          unit: second\n        \
         shadow_mode: true\n      - key: user\n        value: user-b\n        rate_limit:\n          \
         requests_per_unit: 20\n          unit: second\n",
        &[
            (&["service=auth-service,user=user-a"], 30, 30),
            (&["service=auth-service,user=user-b"], 30, 20),
        ],
    ),
    (
        "domain: example7\ndescriptors:\n  - key: key_1\n    value: value_1\n    descriptors:\n      - key: \
         user\n        value: bkthomps\n        rate_limit:\n          name: specific_limit\n          \
         requests_per_unit: 5\n          unit: second\n  - key: key_2\n    value: value_2\n    \
         descriptors:\n      - key: user\n        value: bkthomps\n        rate_limit:\n          \
         replaces:\n            - name: specific_limit\n          requests_per_unit: 10\n          unit: \
         second\n",
        &[
            (&["key_1=value_1,user=bkthomps", "key_2=value_2,user=bkthomps"], 12, 10),
            (&["key_1=value_1,user=bkthomps"], 12, 5),
        ],
    ),
    (
        "domain: example9\ndescriptors:\n  - key: key1\n    value: value*\n    rate_limit:\n      unit: \
         minute\n      requests_per_unit: 20\n",
        &[(&["key1=value1"], 22, 20), (&["key1=value2"], 22, 20), (&["key1=other"], 22, 22)],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn examples_load_and_answer_as_documented() {
    for (file, asked) in EXAMPLES {
        let service = Service::new(false, file).await;
        let domain = file.lines().next().unwrap().strip_prefix("domain: ").unwrap();
        for (descriptors, calls, expected) in asked {
            let descriptors: Vec<_> = descriptors.iter().map(|text| descriptor(text)).collect();
            let mut passed = 0;
            for _ in 0..*calls {
                let answer = service.call(request(domain, &descriptors)).await.unwrap();
                assert!([OK, OVER].contains(&answer.overall_code), "{}", codes(&answer));
                passed += usize::from(answer.overall_code == OK);
            }
            assert_eq!(passed, *expected, "{domain} {descriptors:?}");
        }
    }
}

#[test]
fn files_that_the_peer_refuses_are_refused() {
    let refused = |files: &[&str]| rules(files, Default::default()).unwrap_err();
    for (file, error) in [
        ("descriptors: []", "0.yaml: domain: is required"),
        ("domain: d\ndescriptors: [{value: x}]", "has no key"),
        ("domain: d\ndescriptors: [{key: a}, {key: a}]", "same key and value"),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unit: foo}}]", "unit \"foo\""),
        ("domain: d\ndescriptors: [{key: a, rate_limt: {}}]", "unknown key \"rate_limt\""),
        ("domain: [d", "0.yaml: "),
    ] {
        let found = refused(&[file]);
        assert!(found.contains(error), "{file}: {found}");
    }
    assert!(refused(&["domain: d", "domain: d"]).starts_with("1.yaml: domain \"d\""));
    let merged = tollgate_core::envoy::EnvoySettings { merge_domains: true, ..Default::default() };
    let merged = rules(&["domain: d\ndescriptors: [{key: a}]", "domain: d"], merged).unwrap();
    assert_eq!(merged.counts().0, 1);
}

#[test]
fn the_metrics_that_replace_statistics_of_the_peer_exist() {
    let page = include_str!("../../docs/envoy.md");
    let words = page.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named =
        words.filter(|word| word.starts_with("tollgate_") || word.starts_with("grpc_server_"));
    let mut found = 0;
    for name in named {
        assert!(METRICS.iter().any(|metric| metric.name == name), "{name} is no metric");
        found += 1;
    }
    assert!(found >= 6, "{found}");
}
