use super::{
    super::{Redis, RedisOptions, topology::Topology},
    *,
};

fn part(first: u16, last: u16, primary: &str) -> SlotRange {
    SlotRange { first, last, primary: primary.to_owned(), replicas: Vec::new() }
}

#[test]
fn a_probe_tag_is_in_a_slot_of_its_node_and_a_node_without_slots_has_none() {
    let redis = Redis::new(&RedisOptions::new("redis+cluster://127.0.0.1:1")).expect("a URL");
    let Topology::Cluster(cluster) = &*redis.topology else { panic!("the URL of a Cluster") };
    let node = |place: &str| cluster.at(place).expect("a place");
    let slot_of = |node: &Node| {
        let tag = cluster.tag_of(node.monitor.source())?;
        Some(Slot::from_key(tag.to_string().as_bytes()).0)
    };
    let [most, one, idle] = ["h:1", "h:2", "h:3"].map(node);
    assert_eq!([&most, &one, &idle].map(|node| slot_of(node)), [None, None, None]);

    cluster.take_over(&[part(0, 16_382, "h:1"), part(16_383, 16_383, "h:2")]);
    assert_eq!([&most, &one, &idle].map(|node| slot_of(node)), [Some(0), Some(16_383), None]);

    // A slot moves, first because of a redirect, then because of the next map.
    let idle = cluster.record_moved("h:3", 7).expect("a place");
    assert_eq!(slot_of(&idle), Some(7));
    cluster.take_over(&[part(0, 16_383, "h:2")]);
    assert_eq!([&most, &one, &idle].map(|node| slot_of(node)), [None, Some(0), None]);
}
