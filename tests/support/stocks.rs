//! Requests about stock, and calls of a shop.

use std::time::Duration;

use tollgate_client::pb::{
    self, CancelOutcome, ConfirmOutcome, ReserveOutcome, stock_service_client::StockServiceClient,
};
use tonic::{Response, Status, transport::Channel};

use crate::support::world::{World, duration};

pub type Stocks = StockServiceClient<Channel>;

/// A world, and a client of its stock service.
pub struct Shop {
    pub world: World,
    pub client: Stocks,
}

pub fn reserve(sku: &str, order: &str, quantity: i64) -> pb::ReserveStockRequest {
    pb::ReserveStockRequest {
        sku: sku.into(),
        order_id: order.into(),
        quantity,
        ..pb::ReserveStockRequest::default()
    }
}

pub fn held(length: Duration, request: pb::ReserveStockRequest) -> pb::ReserveStockRequest {
    pb::ReserveStockRequest { hold_duration: Some(duration(length)), ..request }
}

pub fn by(
    buyer: &str,
    limit: impl Into<Option<i64>>,
    request: pb::ReserveStockRequest,
) -> pb::ReserveStockRequest {
    pb::ReserveStockRequest { buyer_id: buyer.into(), buyer_limit: limit.into(), ..request }
}

pub fn set(sku: &str, on_hand: i64) -> pb::SetStockRequest {
    pb::SetStockRequest { sku: sku.into(), on_hand: Some(on_hand) }
}

pub fn add(sku: &str, delta: i64) -> pb::AddStockRequest {
    pb::AddStockRequest { sku: sku.into(), delta, request_id: String::new() }
}

pub fn confirm(sku: &str, order: &str) -> pb::ConfirmReservationRequest {
    pb::ConfirmReservationRequest { sku: sku.into(), order_id: order.into() }
}

pub fn cancel(sku: &str, order: &str) -> pb::CancelReservationRequest {
    pb::CancelReservationRequest { sku: sku.into(), order_id: order.into() }
}

pub fn get(sku: &str) -> pb::GetStockRequest {
    pb::GetStockRequest { sku: sku.into() }
}

/// Returns a request with a deadline of 30 s, since the machine may be busy.
pub fn patient<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(Duration::from_secs(30));
    request
}

/// On hand, available, reserved, sold. The first is the sum of the next two.
pub fn levels(stock: Option<pb::Stock>) -> [u64; 4] {
    let stock = stock.expect("every answer has the stock");
    assert_eq!(stock.on_hand, stock.available + stock.reserved, "{stock:?}");
    [stock.on_hand, stock.available, stock.reserved, stock.sold]
}

fn answer<T>(response: Result<Response<T>, Status>) -> T {
    response.expect("decided").into_inner()
}

impl Shop {
    pub async fn from_world(world: World) -> Shop {
        let client = Stocks::connect(world.address.clone()).await.unwrap();
        Shop { world, client }
    }

    pub async fn advance(&self, by: Duration) {
        self.world.advance(by).await;
    }

    pub async fn set(&self, sku: &str, on_hand: i64) -> [u64; 4] {
        levels(answer(self.client.clone().set_stock(patient(set(sku, on_hand))).await).stock)
    }

    pub async fn add(&self, request: pb::AddStockRequest) -> pb::AddStockResponse {
        answer(self.client.clone().add_stock(patient(request)).await)
    }

    pub async fn reserve(&self, request: pb::ReserveStockRequest) -> pb::ReserveStockResponse {
        answer(self.client.clone().reserve_stock(patient(request)).await)
    }

    /// Reserves, and returns only the outcome.
    pub async fn asked(&self, request: pb::ReserveStockRequest) -> ReserveOutcome {
        self.reserve(request).await.outcome()
    }

    /// Returns the outcome, and whether the items were retaken.
    pub async fn confirm(&self, sku: &str, order: &str) -> (ConfirmOutcome, bool) {
        let request = patient(confirm(sku, order));
        let response = answer(self.client.clone().confirm_reservation(request).await);
        levels(response.stock.clone());
        (response.outcome(), response.retaken)
    }

    pub async fn cancel(&self, sku: &str, order: &str) -> CancelOutcome {
        let request = patient(cancel(sku, order));
        let response = answer(self.client.clone().cancel_reservation(request).await);
        levels(response.stock.clone());
        response.outcome()
    }

    /// Returns the number of stored holds.
    pub async fn holds(&self, sku: &str) -> u64 {
        answer(self.client.clone().get_stock(patient(get(sku))).await).holds
    }

    pub async fn get(&self, sku: &str) -> [u64; 4] {
        levels(answer(self.client.clone().get_stock(patient(get(sku))).await).stock)
    }
}
