//! Tests permits of connections, peers and servers.

use futures_util::FutureExt;

use super::*;
use crate::{peers::Peers, rejections::SAMPLE};

fn connected(limits: TransportLimits) -> (Arc<Peers>, Arc<ConnectionBudget>) {
    let peers = Peers::new(&limits);
    let budget = ConnectionBudget::new(peers.connect([127, 0, 0, 1].into(), 10).unwrap(), &SAMPLE);
    (peers, budget)
}

#[tokio::test]
async fn requests_wait_for_their_own_connection_and_not_for_others() {
    let limits = TransportLimits {
        request_bytes: 900_000,
        connection_request_bytes: 800_000,
        ..TransportLimits::DEFAULT
    };
    let peers = Peers::new(&limits);
    let connect =
        |host| ConnectionBudget::new(peers.connect([192, 0, 2, host].into(), 10).unwrap(), &SAMPLE);
    let (one, other) = (connect(1), connect(2));
    let first = one.clone().request(600_000).await.unwrap();
    let second = tokio::spawn(one.clone().request(500_000));
    tokio::task::yield_now().await;
    let small = one.try_request(100_000).expect("small requests do not wait for large ones");
    assert!(other.clone().request(300_000).await.is_none(), "the server has 200,000 left");
    drop((first, small));
    assert!(second.await.unwrap().is_some());
}

#[test]
fn streams_count_in_blocks_beyond_the_free_ones() {
    let limits = TransportLimits { peer_streams: 40, ..TransportLimits::DEFAULT };
    let (_peers, budget) = connected(limits);
    let mut open = Vec::new();
    while budget.may_open() {
        open.push(budget.clone().open());
    }
    assert_eq!(open.len(), STREAMS_FREE + STREAMS_BLOCK);
    open.clear();
    assert!(budget.may_open());
}

#[tokio::test]
async fn a_peer_uses_at_most_half_of_the_permits_of_the_server() {
    let limits = TransportLimits::DEFAULT;
    let peers = Peers::new(&limits);
    let connect = |host| {
        ConnectionBudget::new(peers.connect([192, 0, 2, host].into(), 100).unwrap(), &SAMPLE)
    };
    // Uses as much as one peer may, over this number of connections.
    let use_all = async |host, connections: usize| {
        let (mut budgets, mut requests, mut answers, mut listings) =
            (vec![], vec![], vec![], vec![]);
        for _ in 0..connections {
            let connection = connect(host);
            requests.extend(connection.clone().request(6 << 20).await);
            while connection.may_answer() {
                answers.extend(connection.answer(1 << 20));
            }
            while let Some(Some(listing)) = connection.listing().now_or_never() {
                listings.push(listing);
            }
            budgets.push(connection);
        }
        (budgets, requests, answers, listings)
    };
    let one = use_all(1, 16).await;
    assert_eq!((one.1.len(), one.3.len()), (32 / 6, 16));
    let other = use_all(2, 4).await;
    assert_eq!((other.1.len(), other.2.len(), other.3.len()), (4, 32, 16));
    // A connection that uses nothing is answered, however much other connections of its peer use.
    assert!(connect(1).may_answer());
    drop(one);
    let third = use_all(3, 4).await;
    assert_eq!((third.1.len(), third.2.len(), third.3.len()), (4, 32, 16));
}
