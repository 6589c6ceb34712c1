//! `StockService`.

mod convert;
mod parse;

use std::{sync::Arc, time::Instant};

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline,
    pb::{
        self,
        stock_service_server::{StockService, StockServiceServer},
    },
    status,
    unary::unary,
};
use crate::{
    decision::{Decision, error::Error, names::Name, time::monotonic},
    engine::Engine,
    stock::{GetStock, Ruling, Sku, Stock as Levels},
};

/// Maximum message size, bytes: more than all names together.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The stock service of an engine.
#[derive(Debug)]
pub struct Stock {
    engine: Arc<Engine>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Stock {
    /// Name of the service in health checks.
    pub const NAME: &'static str = "tollgate.v1.StockService";

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>) -> Stock {
        Stock { engine }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<Stock>) -> StockServiceServer<Stock> {
        StockServiceServer::from_arc(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    /// Takes a decision on a sku. If many holds have lapsed, the decision is repeated until all are
    /// returned to the stock; the earlier runs only return lapsed holds. Fails with NOT_FOUND for
    /// an unknown sku.
    async fn decide<D, T>(
        &self,
        decision: &D,
        sku: &Name,
        deadline: Instant,
    ) -> Result<(T, Levels), Status>
    where
        D: Decision<State = Sku, Outcome = Ruling<T>>,
    {
        loop {
            match self.engine.run(decision, deadline).await? {
                Ruling::Decided { outcome, stock } => return Ok((outcome, stock)),
                Ruling::NotFound => return Err(status::no_stock(sku)),
                // Lets other tasks of the thread run first.
                Ruling::Again if monotonic() < deadline => tokio::task::yield_now().await,
                Ruling::Again => {
                    let why = "many holds have lapsed and are being returned to the stock; retry";
                    return Err(Error::Unavailable(why.to_owned()).into());
                }
            }
        }
    }
}

unary!(Stock, MESSAGE_BYTES_MAX, {
    "ReserveStock" => reserve_stock,
    "ConfirmReservation" => confirm_reservation,
    "CancelReservation" => cancel_reservation,
});

#[tonic::async_trait]
impl StockService for Stock {
    async fn set_stock(
        &self,
        request: Request<pb::SetStockRequest>,
    ) -> Answer<pb::SetStockResponse> {
        let deadline = deadline::of(&request);
        let set = parse::set_stock(request.into_inner())?;
        let (outcome, stock) = self.decide(&set, &set.sku, deadline).await?;
        Ok(Response::new(convert::set_stock(outcome, stock, &set)?))
    }

    async fn add_stock(
        &self,
        request: Request<pb::AddStockRequest>,
    ) -> Answer<pb::AddStockResponse> {
        let deadline = deadline::of(&request);
        let add = parse::add_stock(request.into_inner())?;
        let (outcome, stock) = self.decide(&add, &add.sku, deadline).await?;
        Ok(Response::new(convert::add_stock(outcome, stock, &add)?))
    }

    async fn reserve_stock(
        &self,
        request: Request<pb::ReserveStockRequest>,
    ) -> Answer<pb::ReserveStockResponse> {
        let deadline = deadline::of(&request);
        let reserve = parse::reserve_stock(request.into_inner())?;
        let (outcome, stock) = self.decide(&reserve, &reserve.sku, deadline).await?;
        Ok(Response::new(convert::reserve_stock(outcome, stock, &reserve)))
    }

    async fn confirm_reservation(
        &self,
        request: Request<pb::ConfirmReservationRequest>,
    ) -> Answer<pb::ConfirmReservationResponse> {
        let deadline = deadline::of(&request);
        let confirm = parse::confirm_reservation(request.into_inner())?;
        let (outcome, stock) = self.decide(&confirm, &confirm.sku, deadline).await?;
        Ok(Response::new(convert::confirm_reservation(outcome, stock, &confirm.sku)))
    }

    async fn cancel_reservation(
        &self,
        request: Request<pb::CancelReservationRequest>,
    ) -> Answer<pb::CancelReservationResponse> {
        let deadline = deadline::of(&request);
        let cancel = parse::cancel_reservation(request.into_inner())?;
        let (outcome, stock) = self.decide(&cancel, &cancel.sku, deadline).await?;
        Ok(Response::new(convert::cancel_reservation(outcome, stock, &cancel.sku)))
    }

    async fn get_stock(
        &self,
        request: Request<pb::GetStockRequest>,
    ) -> Answer<pb::GetStockResponse> {
        let deadline = deadline::of(&request);
        let get = GetStock { sku: parse::get_stock(request.into_inner())? };
        let ((), stock) = self.decide(&get, &get.sku, deadline).await?;
        Ok(Response::new(pb::GetStockResponse { stock: Some(convert::stock(stock, &get.sku)) }))
    }
}
