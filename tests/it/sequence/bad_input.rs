//! Invalid requests for serial numbers, and invalid entries of their configuration.

use tollgate_client::pb;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    process::{TempFile, tollgate},
    rates::configured,
    sequences::{LAYOUTS, floor, many, named, next, step},
    world::World,
};

on_both_engines! {
    every_bad_field_is_named_and_nothing_is_written,
    different_names_share_no_state,
    the_first_matching_entry_is_used,
}

fn fields(status: &tonic::Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    violations.iter().map(|bad| bad.field.clone()).collect()
}

async fn every_bad_field_is_named_and_nothing_is_written(world: World) {
    let world = World::with_rules(world.is_redis(), configured(LAYOUTS)).await;
    for (bad, expected) in [
        (next(""), &["name"][..]),
        (next(&"x".repeat(257)), &["name"]),
        (next("a\nb"), &["name"]),
        (many(0, next("a")), &["count"]),
        (many(10_001, next("a")), &["count"]),
        (step(0, next("a")), &["step"]),
        (step(-1, next("a")), &["step"]),
        (step(1_000_001, next("stamp")), &["step"]),
        (floor(1 << 63, next("a")), &["floor"]),
        (floor(u64::MAX, next("stamp")), &["floor"]),
        (floor(21_000_101_000_001, next("day")), &["floor"]),
        (named(&"x".repeat(257), next("a")), &["request_id"]),
        (named("\u{7}", next("a")), &["request_id"]),
        (
            named("\n", many(0, step(-5, floor(u64::MAX, next("\t"))))),
            &["name", "count", "step", "floor", "request_id"],
        ),
    ] {
        assert_eq!(fields(&world.refused(bad.clone()).await), expected, "{bad:?}");
    }
    let mut client = world.sequences.clone();
    let get = pb::GetSequenceRequest { name: String::new() };
    assert_eq!(fields(&client.get_sequence(get).await.unwrap_err()), ["name"]);
    assert_eq!(world.keys().await, [] as [String; 0]);
    // Values at the bounds are accepted.
    world.next(many(10_000, next(&"x".repeat(256)))).await;
    world.next(step(1_000_000, next("stamp"))).await;
    world.next(named(&"x".repeat(256), floor(i64::MAX as u64, next("a")))).await;
}

async fn different_names_share_no_state(world: World) {
    let names = ["a", "a}", "a%7D", "{a", "}", "%", "*", "a:b", "a b", "é", "a}:counter", "ab"];
    for (index, name) in names.iter().enumerate() {
        let count = index as u32 + 1;
        assert_eq!(world.next(many(count, named("r", next(name)))).await.last, u64::from(count));
    }
    for (index, name) in names.iter().enumerate() {
        assert_eq!(world.sequence(name).await.last, index as u64 + 1, "{name}");
        assert!(world.next(named("r", next(name))).await.replayed, "{name}");
    }
    let unknown = world.sequence("unknown").await;
    assert_eq!((unknown.last, unknown.update_time, unknown.serial), (0, None, String::new()));
}

async fn the_first_matching_entry_is_used(world: World) {
    let entry = |glob: &str, layout: &str| {
        format!("[[sequence]]\nmatch = \"{glob}\"\nlayout = \"{layout}\"\n")
    };
    let config = entry("eu:*", "E{n:03}") + &entry("*", "{n:05}") + &entry("us:*", "U{n}");
    let world = World::with_rules(world.is_redis(), configured(&config)).await;
    assert_eq!(world.next(next("eu:1")).await.serials, ["E001"]);
    assert_eq!(world.next(next("us:1")).await.serials, ["00001"]);
    assert_eq!(world.sequence("eu:1").await.serial, "E001");
}

#[test]
fn errors_of_a_bad_entry_name_its_key() {
    for (entry, parts) in [
        ("", &["missing field `match`"][..]),
        ("match = \"[\"", &["sequence[1].match", "glob"]),
        ("match = \"a\"\nlayout = \"ORD\"", &["sequence[1].layout = \"ORD\"", "{n:06}"]),
        ("match = \"a\"\nlayout = \"{MMdd}{n:02}\"", &["sequence[1].layout", "the year"]),
        ("match = \"a\"\nlayout = \"{yyyy}{n}\"", &["sequence[1].layout", "{n:09}"]),
        ("match = \"a\"\nlayout = \"{n}\"\nutc_offset = \"+01:00\"", &["sequence[1].utc_offset"]),
        ("match = \"a\"\nahead_max = \"1day\"", &["sequence[1].ahead_max", "calendar"]),
        ("match = \"a\"\nlayout = \"timestamp17\"\nutc_offset = \"+14:01\"", &["+14:00"]),
        ("match = \"a\"\nlayout = \"timestamp17\"\nutc_offset = \"8\"", &["utc_offset", "+08:00"]),
        ("match = \"a\"\nlayout = \"timestamp17\"\nahead_max = \"367days\"", &["ahead_max"]),
        ("match = \"a\"\nreserve = 0", &["reserve = 0", "1 to 1000000"]),
        ("match = \"a\"\nreserve = 1000001", &["reserve", "1 to 1000000"]),
        ("match = \"a\"\nwait_replicas = 1", &["sequence[1].wait_replicas", "reserve"]),
        ("match = \"a\"\nreserve = 5\nwait_replicas = 101", &["wait_replicas", "0 to 100"]),
        (
            "match = \"a\"\nlayout = \"{yyyyMMdd}{n:02}\"\nreserve = 100",
            &["sequence[1].reserve", "at most 99"],
        ),
        (
            "match = \"a\"\nlayout = \"{yyyyMMddHH}{n:02}\"\nreserve = 2377",
            &["sequence[1].reserve", "at most 2376"],
        ),
        ("match = \"a\"\nlayuot = \"{n}\"", &["layuot"]),
    ] {
        let file = TempFile::new(&format!("[[sequence]]\nmatch = \"x\"\n[[sequence]]\n{entry}\n"));
        let output = tollgate(&["check-config", file.path()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{entry}: {said}");
        for part in [file.path()].iter().chain(parts) {
            assert!(said.contains(part), "{entry}: {part} is not in {said}");
        }
    }
}
