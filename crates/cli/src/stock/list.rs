//! `tollgate stock list`.

use tollgate_client::{Error, Stock};

use super::options::StockOptions;
use crate::{
    client::{self, ClientError, connect, failed},
    flags::PrefixFlags,
    listing::{PrintedList, warn_unreadable},
    table::Column,
};

const COLUMNS: [Column; 5] = [
    Column::Text("SKU"),
    Column::Number("ON HAND"),
    Column::Number("AVAILABLE"),
    Column::Number("RESERVED"),
    Column::Number("SOLD"),
];

/// Lists and prints the stock of skus.
pub(super) async fn run(
    options: &StockOptions,
    PrefixFlags { prefix }: &PrefixFlags,
) -> Result<(), ClientError> {
    let StockOptions { output, server, access, .. } = options;
    let what = "list the stock";
    let connection = connect(server, access, what).await?;
    let read = async |token: &str| {
        let page = connection.list_stock(prefix, token).await?;
        warn_unreadable("sku", &page.unreadable);
        Ok((page.stock, page.next_page_token))
    };
    let fail = |error: &Error| failed(what, server, error, advice(error.code));
    PrintedList { message: "Stock", columns: COLUMNS, row }.print(*output, read, fail).await
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "PERMISSION_DENIED" => "use the token of a caller that may read stock",
        "UNIMPLEMENTED" => "this server does not support listing stock: upgrade it",
        _ => client::advice(code),
    }
}

fn row(stock: &Stock) -> [String; 5] {
    let Stock { sku, on_hand, available, reserved, sold } = stock;
    [
        sku.clone(),
        on_hand.to_string(),
        available.to_string(),
        reserved.to_string(),
        sold.to_string(),
    ]
}
