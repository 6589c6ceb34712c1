//! Names may have any printable characters, and different names share no state.

use pb::{AdmitDecision, CompleteVerdict};
use tollgate_client::pb;

use crate::support::world::{World, capacity};

on_both_engines! {
    pools_of_different_names_share_no_state,
    pairs_of_device_and_task_share_no_state,
}

async fn pools_of_different_names_share_no_state(world: World) {
    let longest = "x".repeat(256);
    let pools = [
        "{",
        "}",
        "a}b",
        "a",
        "a}",
        "*",
        "a:b",
        "a b",
        "a/b",
        "é",
        "a%7D",
        "a%7Db",
        "{a}",
        "a}:task:d",
        "a}:leases",
        " ",
        "\\",
        "\"",
        "?",
        "[a]",
        "日本",
        &longest,
    ];
    for pool in pools {
        world.configure(capacity(pool, 1)).await;
        let granted = world.admit(pool, "d", "t").await;
        assert_eq!(granted.decision(), AdmitDecision::Admitted, "{pool:?}");
        assert!(!granted.replayed, "{pool:?}");
        assert_eq!(granted.lease.unwrap().pool, pool);
    }
    for pool in pools {
        assert_eq!(world.in_use(pool).await, 1, "{pool:?}");
        assert_eq!(world.complete(pool, "d", "t").await.verdict(), CompleteVerdict::Completed);
    }
}

async fn pairs_of_device_and_task_share_no_state(world: World) {
    let pairs = [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a", "b"),
        ("ab", ""),
        ("a", "b}:task:c"),
        ("a}:task:b", "c"),
        ("a b", "c"),
        ("a", "b c"),
        ("{", "}"),
        ("}", "{"),
        ("*", "*"),
        ("a\\", "b"),
        ("a", "\\b"),
    ];
    for (count, (device, task)) in pairs.iter().filter(|(_, task)| !task.is_empty()).enumerate() {
        let granted = world.admit("p", device, task).await;
        assert!(!granted.replayed, "{device:?} {task:?}");
        assert_eq!(granted.usage.unwrap().in_use, count as u32 + 1);
        let lease = granted.lease.unwrap();
        assert_eq!((&*lease.device_id, &*lease.task_id), (*device, *task));
    }
    let request = pb::ListLeasesRequest { pool: "p".into(), ..Default::default() };
    let page = world.client.clone().list_leases(request).await.unwrap().into_inner();
    let mut listed: Vec<_> =
        page.leases.iter().map(|lease| (&*lease.device_id, &*lease.task_id)).collect();
    let mut expected: Vec<_> = pairs.into_iter().filter(|(_, task)| !task.is_empty()).collect();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
}
