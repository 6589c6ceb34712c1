//! SetSequenceFloor: a sequence moves forward, and never back.

use tollgate_client::pb;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    rates::configured,
    sequences::{LAYOUTS, many, named, next},
    world::World,
};

const VALUE_MAX: u64 = i64::MAX as u64;

on_both_engines! {
    the_next_value_is_at_least_the_floor,
    a_floor_that_is_not_above_the_last_value_changes_nothing,
    a_floor_creates_a_sequence,
    a_floor_can_be_the_largest_value,
    a_floor_has_the_digits_of_a_serial,
    every_bad_field_of_a_floor_is_named,
}

async fn try_set(
    world: &World,
    name: &str,
    floor: u64,
) -> Result<pb::SetSequenceFloorResponse, tonic::Status> {
    let request = pb::SetSequenceFloorRequest { name: name.into(), floor: Some(floor) };
    world.sequences.clone().set_sequence_floor(request).await.map(tonic::Response::into_inner)
}

/// Whether the floor applied, and the value that the next one is above.
async fn set(world: &World, name: &str, floor: u64) -> (bool, u64) {
    let response = try_set(world, name, floor).await.unwrap();
    (response.applied, response.last)
}

fn fields(status: &tonic::Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    violations.iter().map(|bad| bad.field.clone()).collect()
}

async fn the_next_value_is_at_least_the_floor(world: World) {
    assert_eq!(world.one(next("order")).await, 1);
    let exact = (1 << 53) + 1;
    assert_eq!(set(&world, "order", exact).await, (true, exact - 1));
    assert_eq!(world.sequence("order").await.last, exact - 1);
    // A repeat changes nothing, and says that the floor applies.
    assert_eq!(set(&world, "order", exact).await, (true, exact - 1));
    assert_eq!(world.one(next("order")).await, exact);
    assert_eq!(world.next(many(3, next("order"))).await.last, exact + 3);
}

async fn a_floor_that_is_not_above_the_last_value_changes_nothing(world: World) {
    let first = world.next(named("r", many(10, next("order")))).await;
    let before = world.sequence("order").await;
    for floor in [0, 1, 9, 10] {
        assert_eq!(set(&world, "order", floor).await, (false, 10), "{floor}");
    }
    assert_eq!(world.sequence("order").await, before);
    // The answer that is stored for a repeat survives a floor.
    assert_eq!(set(&world, "order", 50).await, (true, 49));
    let again = world.next(named("r", many(10, next("order")))).await;
    assert_eq!((again.first, again.last, again.replayed), (first.first, first.last, true));
    assert_eq!(world.one(next("order")).await, 50);
}

/// Returns the names of all sequences. A page may be short: the index contains the names of other
/// tests as well.
async fn listed(world: &World) -> Vec<String> {
    let (mut client, mut names) = (world.sequences.clone(), Vec::new());
    let mut request = pb::ListSequencesRequest::default();
    loop {
        let page = client.list_sequences(request.clone()).await.unwrap().into_inner();
        names.extend(page.sequences.into_iter().map(|sequence| sequence.name));
        if page.next_page_token.is_empty() {
            return names;
        }
        request.page_token = page.next_page_token;
    }
}

async fn a_floor_creates_a_sequence(world: World) {
    for (name, floor, value) in [("none", 0, 1), ("one", 1, 1), ("more", 42_000, 42_000)] {
        assert_eq!(set(&world, name, floor).await, (true, value - 1), "{name}");
        assert!(world.sequence(name).await.update_time.is_some(), "{name}");
        assert!(listed(&world).await.iter().any(|listed| listed == name), "{name}");
        assert_eq!(world.one(next(name)).await, value, "{name}");
    }
    for key in world.keys().await.iter().filter(|key| key.contains("sequence")) {
        let ttl = world.tamper(&["TTL", &format!("{{}}:{key}")]).await;
        assert_eq!(ttl, Some(::redis::Value::Int(-1)), "{key}");
    }
}

async fn a_floor_can_be_the_largest_value(world: World) {
    assert_eq!(set(&world, "order", VALUE_MAX).await, (true, VALUE_MAX - 1));
    assert_eq!(world.one(next("order")).await, VALUE_MAX);
    assert_eq!(world.refused(next("order")).await.code(), Code::OutOfRange);
    assert_eq!(set(&world, "order", VALUE_MAX).await, (false, VALUE_MAX));
}

async fn a_floor_has_the_digits_of_a_serial(world: World) {
    let world = World::with_rules(world.is_redis(), configured(LAYOUTS)).await;
    let first = world.next(next("day")).await;
    let (today, number) = (first.first / 1_000_000, first.first % 1_000_000);
    assert_eq!(number, 1);
    let moved = try_set(&world, "day", today * 1_000_000 + 700).await.unwrap();
    assert_eq!((moved.applied, moved.last), (true, today * 1_000_000 + 699));
    assert_eq!(moved.serial, format!("ORD-{today}-000699"));
    assert_eq!(world.next(next("day")).await.serials, [format!("ORD-{today}-000700")]);
    // Neither the past nor a floor beyond the clock and `ahead_max` moves it.
    assert_eq!(set(&world, "day", 20_090_101_000_001).await, (false, today * 1_000_000 + 700));
    let far = try_set(&world, "day", 20_990_101_000_001).await.unwrap_err();
    assert_eq!(fields(&far), ["floor"]);
    assert!(far.message().contains("beyond the engine's clock"), "{far:?}");
    assert_eq!(world.next(next("day")).await.serials, [format!("ORD-{today}-000701")]);
    // Number 0 does not exist: the next valid value counts.
    assert!(set(&world, "few", today * 100).await.0);
    assert_eq!(world.next(next("few")).await.first, today * 100 + 1);
}

async fn every_bad_field_of_a_floor_is_named(world: World) {
    let world = World::with_rules(world.is_redis(), configured(LAYOUTS)).await;
    let request = |name: &str, floor| pb::SetSequenceFloorRequest { name: name.into(), floor };
    for (bad, expected) in [
        (request("", Some(1)), &["name"][..]),
        (request("a\nb", None), &["name", "floor"]),
        (request("a", None), &["floor"]),
        (request("a", Some(1 << 63)), &["floor"]),
        (request("stamp", Some(VALUE_MAX)), &["floor"]),
    ] {
        let status = world.sequences.clone().set_sequence_floor(bad.clone()).await.unwrap_err();
        assert_eq!(fields(&status), expected, "{bad:?}");
    }
    assert_eq!(world.keys().await, [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_floor_drops_the_reserved_values_of_every_server() {
    let config = "[[sequence]]\nmatch = \"*\"\nreserve = 1000\nwait_replicas = 0\n";
    let world = World::with_rules(true, configured(config)).await;
    assert_eq!(world.next(many(10, next("order"))).await.last, 10);
    let key = "{}:{sequence:order}:counter";
    let reserved = ["HEXISTS", key, "reserved"];
    assert_eq!(world.tamper(&reserved).await, Some(::redis::Value::Int(1)));
    // Within the block that this server has reserved, and beyond it.
    for floor in [500, 50_000] {
        assert_eq!(set(&world, "order", floor).await, (true, floor - 1));
        assert_eq!(world.tamper(&reserved).await, Some(::redis::Value::Int(0)));
        assert_eq!(world.next(many(2, next("order"))).await.last, floor + 1);
    }
    // Values that another primary reserved may have been given out: the floor is not above them.
    world.tamper(&["HSET", key, "epoch", "another", "reserved", "90000"]).await;
    assert_eq!(set(&world, "order", 60_000).await, (false, 90_000));
    assert_eq!(set(&world, "order", 90_002).await, (true, 90_001));
    assert_eq!(world.one(next("order")).await, 90_002);
}
