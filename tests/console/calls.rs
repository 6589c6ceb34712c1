//! Calls of the other services, as the operator.

use std::time::Duration;

use tollgate_client::pb::{
    self, lock_service_client::LockServiceClient, rate_service_client::RateServiceClient,
    sequence_service_client::SequenceServiceClient, stock_service_client::StockServiceClient,
};

use crate::{
    console::{Console, Signed},
    support::requests::{duration, patient},
};

/// The policy of the tests.
pub const POLICY: &str = "crawlers";

impl Console {
    fn rates(&self) -> RateServiceClient<Signed> {
        RateServiceClient::new(self.signed())
    }

    fn stocks(&self) -> StockServiceClient<Signed> {
        StockServiceClient::new(self.signed())
    }

    /// Checks a key once.
    pub async fn check(&self, key: &str) {
        let request = pb::CheckRateRequest {
            key: key.to_owned(),
            against: Some(pb::check_rate_request::Against::Policy(POLICY.to_owned())),
            ..Default::default()
        };
        self.rates().check_rate(patient(request)).await.unwrap();
    }

    pub async fn key(&self, key: &str) -> pb::GetKeyResponse {
        let request = pb::GetKeyRequest { key: key.to_owned(), policy: POLICY.to_owned() };
        self.rates().get_key(patient(request)).await.unwrap().into_inner()
    }

    /// Takes values of a sequence. Returns the last one.
    pub async fn next(&self, name: &str, count: u32) -> u64 {
        let request = pb::NextSequenceRequest {
            name: name.to_owned(),
            count: Some(count),
            ..Default::default()
        };
        let mut sequences = SequenceServiceClient::new(self.signed());
        sequences.next_sequence(patient(request)).await.unwrap();
        let request = pb::GetSequenceRequest { name: name.to_owned() };
        sequences.get_sequence(patient(request)).await.unwrap().into_inner().last
    }

    /// Acquires a lock for ten minutes.
    pub async fn acquire(&self, name: &str, owner: &str) {
        let request = pb::AcquireLockRequest {
            name: name.to_owned(),
            owner: owner.to_owned(),
            lease_duration: Some(duration(Duration::from_secs(600))),
            ..Default::default()
        };
        LockServiceClient::new(self.signed()).acquire_lock(patient(request)).await.unwrap();
    }

    pub async fn lock(&self, name: &str) -> pb::GetLockResponse {
        let request = patient(pb::GetLockRequest { name: name.to_owned() });
        LockServiceClient::new(self.signed()).get_lock(request).await.unwrap().into_inner()
    }

    /// Sets the quantity on hand.
    pub async fn stock(&self, sku: &str, on_hand: i64) {
        let request = pb::SetStockRequest { sku: sku.to_owned(), on_hand: Some(on_hand) };
        self.stocks().set_stock(patient(request)).await.unwrap();
    }

    pub async fn reserve(&self, sku: &str, order: &str, quantity: i64) {
        let request = pb::ReserveStockRequest {
            sku: sku.to_owned(),
            order_id: order.to_owned(),
            quantity,
            ..Default::default()
        };
        self.stocks().reserve_stock(patient(request)).await.unwrap();
    }

    pub async fn sku(&self, sku: &str) -> pb::Stock {
        let request = patient(pb::GetStockRequest { sku: sku.to_owned() });
        self.stocks().get_stock(request).await.unwrap().into_inner().stock.unwrap()
    }
}
