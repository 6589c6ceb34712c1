//! `StockService`: quantities of skus, and reservations for orders.
//!
//! Only SetStock creates a sku. All other calls fail with NOT_FOUND if the sku is unknown: it is an
//! error, not an outcome that callers have to handle.

mod convert;
mod parse;

use std::{sync::Arc, time::Instant};

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline, name_listing, page_token,
    pb::{
        self,
        stock_service_server::{StockService, StockServiceServer},
    },
    status::{self, from_error},
};
use tollgate_core::{
    Decision,
    error::Error,
    names::Name,
    stock::{GetStock, Sku, Stock as Levels, StockOutcome},
};
use tollgate_engine::Engine;

/// The stock service of an engine.
#[derive(Debug)]
pub struct StockHandlers {
    pub(super) engine: Arc<Engine>,
}

type Answer<T> = Result<Response<T>, Status>;

impl StockHandlers {
    /// Maximum message size, bytes: more than all names together.
    pub(super) const MESSAGE_BYTES_MAX: usize = 64 * 1024;

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>) -> StockHandlers {
        StockHandlers { engine }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<StockHandlers>) -> StockServiceServer<StockHandlers> {
        StockServiceServer::from_arc(self)
            .max_decoding_message_size(Self::MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    /// Makes a decision on a sku. Fails with NOT_FOUND if the sku is unknown, and with UNAVAILABLE
    /// if more holds have lapsed than can be returned to the stock within the deadline.
    async fn decide<D, T>(
        &self,
        decision: &D,
        sku: &Name,
        deadline: Instant,
    ) -> Result<(T, Levels), Status>
    where
        D: Decision<State = Sku, Outcome = StockOutcome<T>>,
    {
        match self.engine.submit(decision, deadline).await.map_err(from_error)?.outcome {
            StockOutcome::Decided { outcome, stock } => Ok((outcome, stock)),
            StockOutcome::NotFound => Err(status::no_stock(sku)),
            StockOutcome::Again => {
                let why = "many holds have lapsed and are being returned to the stock; retry";
                Err(from_error(Error::Unavailable(why.to_owned())))
            }
        }
    }
}

#[tonic::async_trait]
impl StockService for StockHandlers {
    async fn set_stock(
        &self,
        request: Request<pb::SetStockRequest>,
    ) -> Answer<pb::SetStockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let set = parse::set_stock(request, scope)?;
        let (outcome, stock) = self.decide(&set, &set.sku, deadline).await?;
        Ok(Response::new(convert::set_stock(outcome, stock, &set)?))
    }

    async fn add_stock(
        &self,
        request: Request<pb::AddStockRequest>,
    ) -> Answer<pb::AddStockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let add = parse::add_stock(request, scope)?;
        let (outcome, stock) = self.decide(&add, &add.sku, deadline).await?;
        Ok(Response::new(convert::add_stock(outcome, stock, &add)?))
    }

    async fn reserve_stock(
        &self,
        request: Request<pb::ReserveStockRequest>,
    ) -> Answer<pb::ReserveStockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let reserve = parse::reserve_stock(request, scope)?;
        let (outcome, stock) = self.decide(&reserve, &reserve.sku, deadline).await?;
        Ok(Response::new(convert::reserve_stock(outcome, stock, &reserve)))
    }

    async fn confirm_reservation(
        &self,
        request: Request<pb::ConfirmReservationRequest>,
    ) -> Answer<pb::ConfirmReservationResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let confirm = parse::confirm_reservation(request, scope)?;
        let (outcome, stock) = self.decide(&confirm, &confirm.sku, deadline).await?;
        Ok(Response::new(convert::confirm_reservation(outcome, stock, &confirm.sku)))
    }

    async fn cancel_reservation(
        &self,
        request: Request<pb::CancelReservationRequest>,
    ) -> Answer<pb::CancelReservationResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let cancel = parse::cancel_reservation(request, scope)?;
        let (outcome, stock) = self.decide(&cancel, &cancel.sku, deadline).await?;
        Ok(Response::new(convert::cancel_reservation(outcome, stock, &cancel.sku)))
    }

    async fn get_stock(
        &self,
        request: Request<pb::GetStockRequest>,
    ) -> Answer<pb::GetStockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let get = GetStock { sku: parse::get_stock(request, scope)? };
        let (holds, stock) = self.decide(&get, &get.sku, deadline).await?;
        let stock = Some(convert::stock(stock, &get.sku));
        Ok(Response::new(pb::GetStockResponse { stock, holds }))
    }

    async fn list_stock(
        &self,
        request: Request<pb::ListStockRequest>,
    ) -> Answer<pb::ListStockResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let pb::ListStockRequest { prefix, page_size, page_token } = request;
        let query = name_listing::parse(scope.clone(), prefix, page_size, &page_token)?;
        let read = |partition| Some(GetStock { sku: name_listing::permitted(&scope, partition)? });
        let (entries, next) =
            self.engine.list_names(&query, deadline, read).await.map_err(from_error)?;
        let next_page_token = page_token::encode(&query.namespace, next.as_ref());
        let mut page = pb::ListStockResponse { next_page_token, ..Default::default() };
        for (get, read) in entries {
            let stock = match read {
                None => {
                    page.unreadable.push(get.sku.local_bytes());
                    continue;
                }
                Some(StockOutcome::NotFound) => continue,
                Some(StockOutcome::Decided { stock, .. }) => stock,
                // A single step could not return all lapsed holds of the page.
                Some(StockOutcome::Again) => self.decide(&get, &get.sku, deadline).await?.1,
            };
            page.stock.push(convert::stock(stock, &get.sku));
        }
        Ok(Response::new(page))
    }
}
