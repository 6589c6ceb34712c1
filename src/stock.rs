//! Stock: what there is of a sku, held for orders and sold, never more than there is.
//!
//! `on_hand = available + reserved`, always. A hold that is neither confirmed nor
//! cancelled lapses by itself. Each step first takes back what has lapsed, at most
//! [`RECLAIM_MAX`] holds, so that none takes long; where more remain, it may grant, but
//! a refusal that could be for want of them is [`Ruling::Again`]: to be decided again.
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
mod reserve;
mod ruling;
mod set;
mod sku;

pub use add::AddStock;
pub use cancel::{CancelOutcome, CancelReservation};
pub use confirm::{ConfirmOutcome, ConfirmReservation};
pub use get::GetStock;
pub use order::{Reservation, ReservationState};
pub use reserve::{Buyer, ReserveOutcome, ReserveStock};
pub use ruling::{Restocked, Ruling, Stock};
pub use set::SetStock;
pub use sku::Sku;

use crate::time::Millis;

/// The largest quantity, on hand and sold together: 2^53-1.
pub const QUANTITY_MAX: u64 = (1 << 53) - 1;
/// The most that one order reserves.
pub const RESERVE_MAX: u64 = 1_000_000_000;
/// How long a hold runs, unless the request says otherwise.
pub const HOLD_DEFAULT: Millis = Millis::from_secs(15 * 60);
/// The shortest hold.
pub const HOLD_MIN: Millis = Millis(1);
/// The longest hold.
pub const HOLD_MAX: Millis = Millis::from_secs(30 * 86_400);
/// How long an order is remembered after it was settled or its hold lapsed.
pub const RETENTION: Millis = Millis::from_secs(86_400);
/// How long an answer is kept for a repeat of its request.
pub const REPLAY: Millis = Millis::from_secs(300);
/// Lapsed holds that one step takes back at most.
pub const RECLAIM_MAX: usize = 250;
