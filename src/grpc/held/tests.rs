//! Permits of connections, peers and servers.

use futures_util::FutureExt;

use super::*;
use tollgate_engine::budget::Peers;

fn holding(limits: CallerLimits) -> (Arc<Peers>, Arc<ConnectionBudget>) {
    let peers = Peers::new(&limits);
    let holding = ConnectionBudget::new(peers.connect([127, 0, 0, 1].into(), 10).unwrap());
    (peers, holding)
}

#[tokio::test]
async fn requests_wait_for_their_own_connection_and_not_for_others() {
    let limits = CallerLimits {
        request_bytes: 900_000,
        connection_request_bytes: 800_000,
        ..CallerLimits::DEFAULT
    };
    let peers = Peers::new(&limits);
    let connect =
        |host| ConnectionBudget::new(peers.connect([192, 0, 2, host].into(), 10).unwrap());
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
    let limits = CallerLimits { peer_streams: 40, ..CallerLimits::DEFAULT };
    let (_peers, holding) = holding(limits);
    let mut open = Vec::new();
    while holding.may_open() {
        open.push(holding.clone().open());
    }
    assert_eq!(open.len(), STREAMS_FREE + STREAMS_BLOCK);
    open.clear();
    assert!(holding.may_open());
}

#[test]
fn a_part_that_is_not_sent_is_known_to_its_stream_alone() {
    let (_, first) = poll_stream(0, give);
    let (_, second) = poll_stream(0, || ());
    assert!(first > 0 && second == 0);
    assert_eq!(poll_stream(first, || ()), ((), first), "it waits still");
    assert_ne!(poll_stream(first, give), ((), first), "the next part");
    assert_eq!(poll_stream(first, sent), ((), 0));
}

#[tokio::test]
async fn a_peer_holds_at_most_half_of_what_the_server_has() {
    let limits = CallerLimits::DEFAULT;
    let peers = Peers::new(&limits);
    let connect =
        |host| ConnectionBudget::new(peers.connect([192, 0, 2, host].into(), 100).unwrap());
    // As much as one peer holds through connections of this number.
    let take = async |host, connections: usize| {
        let (mut holdings, mut requests, mut answers, mut listings) =
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
            holdings.push(connection);
        }
        (holdings, requests, answers, listings)
    };
    let one = take(1, 16).await;
    assert_eq!((one.1.len(), one.3.len()), (32 / 6, 16));
    let other = take(2, 4).await;
    assert_eq!((other.1.len(), other.2.len(), other.3.len()), (4, 32, 16));
    // A connection that holds nothing is answered, whatever other connections of its peer hold.
    assert!(connect(1).may_answer());
    drop(one);
    let third = take(3, 4).await;
    assert_eq!((third.1.len(), third.2.len(), third.3.len()), (4, 32, 16));
}
