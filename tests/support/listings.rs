//! ListLocks, ListSequences and ListStock through one client.

use std::time::Duration;

use tollgate_client::pb::{self, stock_service_client::StockServiceClient};
use tonic::{Request, Status, transport::Channel};

use crate::support::{
    locks::{acquire, leased},
    world::{Locks, Sequences},
};

const HOUR: f64 = 3600.0;

/// The clients of a server.
#[derive(Clone)]
pub struct Clients {
    pub locks: Locks,
    pub sequences: Sequences,
    pub stock: StockServiceClient<Channel>,
    pub bearer: Option<String>,
}

/// One of the three listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Locks,
    Sequences,
    Stock,
}

pub const KINDS: [Kind; 3] = [Kind::Locks, Kind::Sequences, Kind::Stock];

impl Clients {
    pub async fn to(address: &str) -> Clients {
        let channel = Channel::from_shared(address.to_owned()).unwrap().connect().await.unwrap();
        Clients {
            locks: Locks::new(channel.clone()),
            sequences: Sequences::new(channel.clone()),
            stock: StockServiceClient::new(channel),
            bearer: None,
        }
    }

    /// Returns a request with a long deadline, for a busy machine.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(Duration::from_secs(60));
        if let Some(bearer) = &self.bearer {
            request.metadata_mut().insert("authorization", bearer.parse().unwrap());
        }
        request
    }

    /// Creates a name of each kind.
    pub async fn create(&self, name: &str) {
        let mut it = self.clone();
        it.locks.acquire_lock(self.request(leased(HOUR, acquire(name, "o")))).await.unwrap();
        let next = pb::NextSequenceRequest { name: name.into(), ..Default::default() };
        it.sequences.next_sequence(self.request(next)).await.unwrap();
        let set = pb::SetStockRequest { sku: name.into(), on_hand: Some(5) };
        it.stock.set_stock(self.request(set)).await.unwrap();
    }

    /// Returns a page: the names, the unreadable ones, and the next token.
    pub async fn page(
        &self,
        kind: Kind,
        prefix: &str,
        page_size: Option<u32>,
        page_token: &str,
    ) -> Result<(Vec<String>, Vec<String>, String), Status> {
        let (mut it, prefix, page_token) = (self.clone(), prefix.into(), page_token.into());
        Ok(match kind {
            Kind::Locks => {
                let list = pb::ListLocksRequest { prefix, page_size, page_token };
                let page = it.locks.list_locks(self.request(list)).await?.into_inner();
                let names = page.locks.into_iter().map(|lock| lock.name).collect();
                (names, page.unreadable, page.next_page_token)
            }
            Kind::Sequences => {
                let list = pb::ListSequencesRequest { prefix, page_size, page_token };
                let page = it.sequences.list_sequences(self.request(list)).await?.into_inner();
                let names = page.sequences.into_iter().map(|one| one.name).collect();
                (names, page.unreadable, page.next_page_token)
            }
            Kind::Stock => {
                let list = pb::ListStockRequest { prefix, page_size, page_token };
                let page = it.stock.list_stock(self.request(list)).await?.into_inner();
                let names = page.stock.into_iter().map(|stock| stock.sku).collect();
                (names, page.unreadable, page.next_page_token)
            }
        })
    }

    /// Returns all names of a listing, in order. A name that is listed twice counts once: other
    /// tests can make Redis resize its table.
    pub async fn all(&self, kind: Kind, prefix: &str, page_size: Option<u32>) -> Vec<String> {
        let names = pages(async |token| {
            let (page, unreadable, next) =
                self.page(kind, prefix, page_size, &token).await.unwrap();
            assert!(page.len() <= page_size.unwrap_or(100) as usize, "{kind:?}");
            assert_eq!(unreadable, [""; 0], "{kind:?}");
            (page, next)
        });
        let mut names = names.await;
        names.sort();
        names.dedup();
        names
    }

    /// Returns the stock of the skus that begin with a prefix.
    pub async fn stock(&self, prefix: &str) -> Vec<pb::Stock> {
        pages(async |page_token| {
            let list = pb::ListStockRequest { prefix: prefix.into(), page_size: None, page_token };
            let page =
                self.stock.clone().list_stock(self.request(list)).await.unwrap().into_inner();
            (page.stock, page.next_page_token)
        })
        .await
    }
}

/// Returns the entries of all pages. `read` returns a page and the next token.
pub async fn pages<T>(mut read: impl AsyncFnMut(String) -> (Vec<T>, String)) -> Vec<T> {
    let (mut entries, mut token) = (Vec::new(), String::new());
    loop {
        let (page, next) = read(token).await;
        entries.extend(page);
        if next.is_empty() {
            return entries;
        }
        token = next;
    }
}
