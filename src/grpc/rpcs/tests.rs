use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorSet;
use tollgate_core::{
    admission::ENQUEUE_MAX,
    rate::{BAN_DURATIONS_MAX, LIMITS_MAX, TIERS_MAX},
};
use tollgate_engine::CountedVerb;

use super::{Permission::*, *};
use crate::grpc::{elements::bounds, reflection::DESCRIPTORS, verbs::counted_verbs};

/// Returns the words in quotes or backticks on the lines that contain both texts.
fn listed(path: &str, row: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).unwrap();
    // A comment in the configuration continues on the next lines, up to a full stop.
    let text = text.replace("\n# ", " ");
    let line = text.lines().find_map(|line| line.split_once(row)).unwrap().1;
    let line = line.split([')', '|', '.']).next().unwrap();
    line.split(',').map(|word| word.trim().trim_matches('"').to_owned()).collect()
}

#[test]
fn j33_the_pages_list_every_service_and_every_call_that_needs_manage() {
    let sorted = |mut words: Vec<String>| {
        words.sort();
        words
    };
    let of = |permission| {
        let rpcs = all().filter(|rpc| rpc.permission == permission);
        sorted(rpcs.map(|rpc| rpc.name.to_owned()).collect())
    };
    assert_eq!(sorted(listed("deploy/tollgate.toml", "\"manage\" (")), of(Manage));
    assert_eq!(sorted(listed("docs/security.md", "| `manage` | ")), of(Manage));
    assert_eq!(sorted(listed("docs/security.md", "| `use` | ")), of(Use));
    let services = Service::ALL.map(|service| service.name().to_owned()).to_vec();
    let named = listed("deploy/tollgate.toml", "Services that it may use: ");
    assert_eq!(sorted(named), sorted(services));
}

#[test]
fn every_rpc_is_in_the_table_once() {
    for (position, known) in RPCS.iter().enumerate() {
        let found = find(known.labels.path).route.position;
        assert_eq!((known.route.position, found), (position, position));
        let Some(rpc) = &known.rpc else { continue };
        assert_eq!(known.labels.path, format!("/{}/{}", rpc.service.full_name(), rpc.name));
        let reads = ["Get", "List", "Watch"].iter().any(|it| rpc.name.starts_with(it));
        assert_eq!(reads, rpc.permission == Read, "{}", rpc.name);
        assert_eq!(rpc.is_watch, known.labels.kind == "server_stream", "{}", rpc.name);
    }
    let watch = find("/tollgate.v1.AdmissionService/WatchPool");
    assert_eq!(watch.labels.kind, "server_stream");
    for unknown in ["/tollgate.v1.LockService/Set", "/Admission/AdmitTask", ""] {
        assert_eq!(find(unknown).route.position, 0, "{unknown}");
    }
    let envoy = of("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit").unwrap();
    assert_eq!((envoy.service, envoy.permission), (Service::Envoy, Use));
    assert!(of("/grpc.health.v1.Health/Check").is_none());
}

/// Load shedding reads the option, while the fallback reads the property of the verb.
#[test]
fn rpcs_free_capacity_as_their_decisions_do() {
    let verbs = counted_verbs();
    let counted = all().filter_map(|rpc| {
        let (service, name) = (rpc.service.name(), rpc.name.to_lowercase());
        let names = |verb: &&CountedVerb| {
            let (capability, verb) = verb.script.name.split_once('/').unwrap();
            capability == service && name.starts_with(&verb.replace('_', ""))
        };
        Some((rpc, verbs.iter().find(names)?))
    });
    let frees_capacity = |rpc: &Rpc| {
        find(&format!("/{}/{}", rpc.service.full_name(), rpc.name)).route.frees_capacity
    };
    let mut compared = 0;
    for (rpc, verb) in counted {
        compared += usize::from(frees_capacity(rpc));
        assert_eq!(
            frees_capacity(rpc),
            verb.frees_capacity,
            "{} and {}",
            rpc.name,
            verb.script.name
        );
    }
    assert_eq!(compared, all().filter(|rpc| frees_capacity(rpc)).count());
}

/// Rules in the configuration are checked against separate bounds.
#[test]
fn bounds_match_the_rules() {
    assert_eq!(bounds::ENQUEUE_TASKS_REQUEST_TASKS, 1..=ENQUEUE_MAX);
    assert_eq!(bounds::RULE_LIMITS, 0..=LIMITS_MAX);
    assert_eq!(bounds::RULE_TIERS, 0..=TIERS_MAX);
    assert_eq!(bounds::TIER_BAN_DURATIONS, 0..=BAN_DURATIONS_MAX);
}

/// Returns the problems of a build without options, which are lost because prost decodes the
/// descriptors.
fn problems() -> String {
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let bare = DescriptorPool::from_file_descriptor_set(set).unwrap();
    generate::generate(&bare).err().unwrap()
}

/// Returns the problem with an RPC or a field.
fn problem<'p>(problems: &'p str, of: &str) -> &'p str {
    let found = problems.lines().find(|line| line.split(' ').next() == Some(of));
    found.unwrap_or_else(|| panic!("no line about {of} in:\n{problems}"))
}

#[test]
fn a_build_without_a_permission_fails_and_says_what_to_add() {
    let complete = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let generated = generate::generate(&complete).ok().unwrap();
    assert!(generated.rpcs == include_str!(concat!(env!("OUT_DIR"), "/rpcs.rs")));
    assert!(generated.requests == include_str!(concat!(env!("OUT_DIR"), "/requests.rs")));
    assert!(generated.fast_paths == include_str!(concat!(env!("OUT_DIR"), "/fast_paths.rs")));
    assert!(generated.verbs == include_str!(concat!(env!("OUT_DIR"), "/verbs.rs")));
    let problems = problems();
    for rpc in all().filter(|rpc| rpc.service != Service::Envoy) {
        let path = format!("{}/{}", rpc.service.full_name(), rpc.name);
        assert_eq!(
            problem(&problems, &path),
            format!(
                "{path} has no permission: add `option (permission) = PERMISSION_USE;`, or \
                 PERMISSION_READ or PERMISSION_MANAGE, as proto/tollgate/v1/options.proto describes"
            )
        );
    }
}

/// A repeated field without a bound fails the build.
#[test]
fn h4_every_repeated_field_of_a_request_has_a_bound() {
    let problems = problems();
    let mut fields: Vec<&str> = problems
        .lines()
        .filter(|line| line.contains(" add `[(max_elements) = N]`, "))
        .filter_map(|line| line.split(' ').next()?.strip_prefix("tollgate.v1."))
        .collect();
    fields.sort_unstable();
    let expected = [
        "AdmitTasksRequest.requests",
        "CheckRatesRequest.checks",
        "CompleteTasksRequest.requests",
        "EnqueueTasksRequest.tasks",
        "RenewTasksRequest.requests",
        "Rule.limits",
        "Rule.tiers",
        "Tier.ban_durations",
    ];
    assert_eq!(fields, expected, "{problems}");
}
