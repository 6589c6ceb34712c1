//! Stock: the list of skus, filtered by prefix, and the page of one sku with its quantities.

use askama::Template;
use tollgate_client::pb::{
    GetStockRequest, ListStockRequest, SetStockRequest, Stock,
    stock_service_client::StockServiceClient,
};

use super::names::{self, NamesFilter, PAGE};
use crate::{
    fields::FormFields,
    format::{count, percent},
    page::{ConsolePage, Problem},
    paging::Paging,
    visit::{Visit, encoded},
};

#[derive(Template)]
#[template(path = "stock_list.html")]
struct SkusTemplate {
    rows: Vec<StockRow>,
    unreadable: Vec<String>,
    paging: Paging,
}

struct StockRow {
    sku: String,
    link: String,
    on_hand: String,
    available: String,
    reserved: String,
    sold: String,
    percent: u64,
}

#[derive(Template)]
#[template(path = "sku_quantities.html")]
struct QuantitiesTemplate {
    row: StockRow,
    /// The number of stored holds.
    holds: String,
    /// The number without separators, for the form.
    on_hand: u64,
    may_set: bool,
}

impl StockRow {
    fn new(stock: &Stock) -> StockRow {
        StockRow {
            link: encoded(&stock.sku),
            sku: stock.sku.clone(),
            on_hand: count(stock.on_hand),
            available: count(stock.available),
            reserved: count(stock.reserved),
            sold: count(stock.sold),
            percent: percent(stock.reserved, stock.on_hand),
        }
    }
}

/// Loads the list.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let page = ConsolePage::new("Stock").fixed("filter", &NamesFilter::new(visit, "/sku"))?;
    let request = ListStockRequest {
        prefix: visit.query().get("prefix").to_owned(),
        page_size: Some(PAGE),
        page_token: visit.query().get("page").to_owned(),
    };
    let listed = match visit.client(StockServiceClient::new).list_stock(request).await {
        Ok(listed) => listed.into_inner(),
        Err(status) => return page.lacking_or(status),
    };
    let list = SkusTemplate {
        rows: listed.stock.iter().map(StockRow::new).collect(),
        unreadable: listed.unreadable,
        paging: names::paging(visit, &listed.next_page_token),
    };
    page.live("stock", &list)
}

/// Loads the page of one sku.
pub(super) async fn load_one(visit: &Visit) -> Result<ConsolePage, Problem> {
    let request = GetStockRequest { sku: visit.name().to_owned() };
    let answer = visit.client(StockServiceClient::new).get_stock(request).await?.into_inner();
    let stock = answer.stock.unwrap_or_default();
    let quantities = QuantitiesTemplate {
        row: StockRow::new(&stock),
        holds: count(answer.holds),
        on_hand: stock.on_hand,
        may_set: visit.may("StockService/SetStock"),
    };
    ConsolePage::new(visit.name()).live("quantities", &quantities)
}

/// Runs an action.
pub(super) async fn act(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    if form.get("action") != "set" {
        return Err(Problem::Invalid("no such action".to_owned()));
    }
    let on_hand: i64 = form.number("on_hand")?;
    let request = SetStockRequest { sku: visit.name().to_owned(), on_hand: Some(on_hand) };
    visit.client(StockServiceClient::new).set_stock(request).await?;
    Ok(format!("Set the quantity on hand to {on_hand}."))
}
