//! Stock: the quantity of a sku on hand, reserved for orders, and sold. Never oversold.
//!
//! A hold that is neither confirmed nor cancelled expires. Each decision first reclaims up to
//! [`RECLAIM_MAX`] expired holds. If more remain, it may still grant, but a refusal that the
//! remaining ones could change is [`StockOutcome::Again`]: the engine decides again.
//!
//! # Invariants
//! - `on_hand = available + reserved`, and `reserved` is the sum of the stored holds, so each unit
//!   is promised to one order at a time.
//! - `on_hand + sold` is at most [`QUANTITY_MAX`], so that Lua numbers are exact.
//! - The quantity of a buyer is the sum of its reserved and bought units. No call with a limit
//!   raises it above that limit.
//! - An order has one record. Its state is `Held`, then `Confirmed` or `Cancelled`, which are final.
//!   A `Held` order without a stored hold has expired, and can be reserved anew.
//!
//! | verb | struct | script |
//! |---|---|---|
//! | SetStock | [`SetStock`] | `lua/stock/set.lua` |
//! | AddStock | [`AddStock`] | `lua/stock/add.lua` |
//! | ReserveStock | [`ReserveStock`] | `lua/stock/reserve.lua` |
//! | ConfirmReservation | [`ConfirmReservation`] | `lua/stock/confirm.lua` |
//! | CancelReservation | [`CancelReservation`] | `lua/stock/cancel.lua` |
//! | GetStock | [`GetStock`] | `lua/stock/get.lua` |

mod add;
mod cancel;
mod confirm;
mod get;
mod order;
mod outcome;
mod reserve;
mod set;
mod sku;

pub use add::AddStock;
pub use cancel::{CancelOutcome, CancelReservation};
pub use confirm::{ConfirmOutcome, ConfirmReservation};
pub use get::GetStock;
pub use order::{Reservation, ReservationState};
pub use outcome::{Restocked, Stock, StockOutcome};
pub use reserve::{Buyer, ReserveOutcome, ReserveStock};
pub use set::SetStock;
pub use sku::Sku;
pub use sku::{BuyerLine, HoldLine, OrderLine, RestockLine, StockLine};

use crate::time::Millis;

/// The largest sum of on-hand and sold quantity: 2^53-1.
pub const QUANTITY_MAX: u64 = (1 << 53) - 1;
/// The largest quantity of one order.
pub const RESERVE_MAX: u64 = 1_000_000_000;
/// Length of a hold unless the request specifies one.
pub const HOLD_DEFAULT: Millis = Millis::from_secs(15 * 60);
/// The shortest hold.
pub const HOLD_MIN: Millis = Millis(1);
/// The longest hold.
pub const HOLD_MAX: Millis = Millis::from_secs(30 * 86_400);
/// How long an order is stored after it was settled or its hold expired.
pub const RETENTION: Millis = Millis::from_secs(86_400);
/// How long an answer is stored for repeats of its request.
pub const REPLAY: Millis = Millis::from_secs(300);
/// The maximum number of expired holds that one decision reclaims.
pub const RECLAIM_MAX: usize = 250;
