//! Commands of rates, sequences, locks and stock.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tollgate_client::{
    Error as CallError, IPV6_BITS, Limiter, LockGuard, Locking, Order, Reserving, Stock,
    address_key,
};

use crate::{
    Answer, Fields, Object, Runner, admission::state, failure, locked, put, short, unknown,
};

impl Runner {
    pub(crate) async fn other(self: &Arc<Runner>, command: &str, fields: Fields) -> Answer {
        match command {
            "check" => self.check(&fields).await,
            "address_key" => Ok(address(&fields)),
            "get_key" => self.get_key(&fields).await,
            "next" => self.next(&fields).await,
            "set_floor" => self.set_floor(&fields).await,
            "allocator" => {
                let block = fields.number("block").unwrap_or(100);
                let allocator = self.connection(&fields)?.allocator(&fields.text("name"));
                self.insert(&fields, Object::Allocator(Arc::new(allocator.block(block))));
                Ok(json!({}))
            }
            "allocate" => {
                let allocator = match locked(&self.objects).get(&fields.text("handle")) {
                    Some(Object::Allocator(allocator)) => allocator.clone(),
                    _ => return Err(unknown(&fields.text("handle"))),
                };
                let serial = allocator.next().await?;
                let mut answer = json!({ "value": serial.value.to_string() });
                if let Some(text) = serial.text {
                    answer["serial"] = json!(text);
                }
                Ok(answer)
            }
            "lock" => self.lock(&fields).await,
            "lock_state" => match locked(&self.objects).get(&fields.text("handle")) {
                Some(Object::Lock { held, .. }) => Ok(state(held)),
                _ => Err(unknown(&fields.text("handle"))),
            },
            "unlock" => self.unlock(&fields).await,
            "leave_lock" => self.leave_lock(&fields).await,
            _ => self.stock(command, &fields).await,
        }
    }

    pub(crate) fn limiter(&self, fields: &Fields) -> Result<Limiter, CallError> {
        let limiter = self.connection(fields)?.limiter(&fields.text("policy"));
        Ok(match &*fields.text("on_failure") {
            "open" => limiter.fail_open(),
            "closed" => limiter.fail_closed(),
            _ => limiter,
        })
    }

    async fn check(&self, fields: &Fields) -> Answer {
        let (key, cost) = (fields.text("key"), fields.number("cost").unwrap_or(1));
        let id = fields.optional("request_id");
        let rate = self.limiter(fields)?.check_cost(&key, cost, id.as_deref()).await?;
        let headers: serde_json::Map<String, Value> = rate
            .headers()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        let verdict = rate.verdict.map(|verdict| short(verdict.as_str_name(), 2));
        let mut answer = json!({
            "allowed": rate.allowed,
            "verdict": verdict.unwrap_or_default(),
            "replayed": rate.replayed,
            "degraded": rate.degraded,
            "headers": headers,
        });
        put(&mut answer, "retry_after", rate.retry_after);
        Ok(answer)
    }

    async fn get_key(&self, fields: &Fields) -> Answer {
        let (key, policy) = (fields.text("key"), fields.text("policy"));
        let found = self.connection(fields)?.key(&key, &policy).await?;
        let limits: Vec<Value> = found
            .limits
            .iter()
            .map(|limit| {
                json!({
                    "name": limit.name,
                    "max": limit.max.to_string(),
                    "count": limit.count.to_string(),
                    "remaining": limit.remaining.to_string(),
                })
            })
            .collect();
        Ok(json!({ "limits": limits, "banned": found.ban.is_some(), "strikes": found.strikes }))
    }

    async fn next(&self, fields: &Fields) -> Answer {
        let id = fields.optional("request_id");
        let taken = self
            .connection(fields)?
            .take(
                &fields.text("name"),
                fields.number("count").unwrap_or(1),
                fields.number("step").unwrap_or(1),
                fields.number("floor"),
                id.as_deref(),
            )
            .await?;
        Ok(json!({
            "first": taken.first.to_string(),
            "last": taken.last.to_string(),
            "step": taken.step.to_string(),
            "serials": taken.serials,
            "replayed": taken.replayed,
        }))
    }

    async fn set_floor(&self, fields: &Fields) -> Answer {
        let floor = fields.number("floor").unwrap_or_default();
        let connection = self.connection(fields)?;
        let set = connection.set_sequence_floor(&fields.text("name"), floor).await?;
        Ok(json!({ "applied": set.applied }))
    }

    async fn lock(self: &Arc<Runner>, fields: &Fields) -> Answer {
        let mut request = self
            .connection(fields)?
            .lock(&fields.text("name"))
            .wait(fields.seconds("wait").unwrap_or_default())
            .lease(fields.seconds("lease"))
            .keeper(fields.is("keeper").unwrap_or(true));
        if let Some(owner) = fields.optional("owner") {
            request = request.owner(owner);
        }
        match request.await? {
            Locking::Acquired(guard) => {
                let mut answer = json!({
                    "outcome": "ACQUIRED",
                    "token": guard.token().to_string(),
                    "replayed": guard.replayed(),
                });
                put(&mut answer, "valid_for", Some(guard.valid_for()));
                let held = guard.held();
                let lost = self.report_loss(fields, &held);
                self.insert(fields, Object::Lock { guard: Some(guard), held, lost });
                Ok(answer)
            }
            Locking::Held { holder, retry_after } => {
                let mut answer = json!({ "outcome": "HELD", "holder": holder });
                put(&mut answer, "retry_after", Some(retry_after));
                Ok(answer)
            }
        }
    }

    async fn unlock(&self, fields: &Fields) -> Answer {
        let (guard, lost) = self.take_lock(fields)?;
        let outcome = guard.release().await;
        lost.abort();
        Ok(json!({ "outcome": short(outcome?.as_str_name(), 3) }))
    }

    pub(crate) fn take_lock(&self, fields: &Fields) -> Result<(LockGuard, AbortHandle), CallError> {
        let handle = fields.text("handle");
        match locked(&self.objects).get_mut(&handle) {
            Some(Object::Lock { guard, lost, .. }) => {
                let guard = guard.take().ok_or_else(|| unknown(&handle))?;
                Ok((guard, lost.clone()))
            }
            _ => Err(unknown(&handle)),
        }
    }

    async fn stock(&self, command: &str, fields: &Fields) -> Answer {
        let (sku, order) = (fields.text("sku"), fields.text("order"));
        match command {
            "set_stock" => {
                let on_hand = fields.number("on_hand").unwrap_or(0);
                Ok(described(&self.connection(fields)?.set_stock(&sku, on_hand).await?))
            }
            "add_stock" => {
                let id = fields.optional("request_id");
                let delta = fields.number("delta").unwrap_or(0);
                let connection = self.connection(fields)?;
                let (stock, replayed) = connection.add_stock(&sku, delta, id.as_deref()).await?;
                let mut answer = described(&stock);
                answer["replayed"] = json!(replayed);
                Ok(answer)
            }
            "stock" => {
                let (stock, holds) = self.connection(fields)?.get_stock(&sku).await?;
                let mut answer = described(&stock);
                answer["holds"] = json!(holds.to_string());
                Ok(answer)
            }
            "reserve" => self.reserve(fields).await,
            "confirm" => {
                let (confirmed, _) =
                    self.connection(fields)?.confirm_reservation(&sku, &order).await?;
                let outcome = short(confirmed.outcome().as_str_name(), 2);
                Ok(json!({ "outcome": outcome, "retaken": confirmed.retaken }))
            }
            "cancel_reservation" => {
                let (outcome, _) =
                    self.connection(fields)?.cancel_reservation(&sku, &order).await?;
                Ok(json!({ "outcome": short(outcome.as_str_name(), 2) }))
            }
            _ => self.leave_reservation(fields).await,
        }
    }

    async fn reserve(&self, fields: &Fields) -> Answer {
        let (sku, order, buyer) = (fields.text("sku"), fields.text("order"), fields.text("buyer"));
        let wanted = Order {
            sku: &sku,
            order: &order,
            quantity: fields.number("quantity").unwrap_or(0),
            hold: fields.seconds("hold"),
            buyer: &buyer,
            buyer_limit: fields.number("buyer_limit"),
        };
        let mut answer = json!({ "replayed": false });
        match self.connection(fields)?.reserve(&wanted).await? {
            Reserving::Reserved(reservation) => {
                answer["outcome"] = json!("RESERVED");
                answer["replayed"] = json!(reservation.replayed());
                put(&mut answer, "valid_for", Some(reservation.valid_for()));
                self.insert(fields, Object::Reservation(reservation));
            }
            Reserving::Short { retry_after } => {
                answer["outcome"] = json!("SHORT");
                put(&mut answer, "retry_after", retry_after);
            }
            Reserving::BuyerLimit { .. } => answer["outcome"] = json!("BUYER_LIMIT"),
            Reserving::AlreadySettled { .. } => answer["outcome"] = json!("ALREADY_SETTLED"),
        }
        Ok(answer)
    }

    async fn leave_reservation(&self, fields: &Fields) -> Answer {
        let handle = fields.text("handle");
        let Some(Object::Reservation(reservation)) = locked(&self.objects).remove(&handle) else {
            return Err(unknown(&handle));
        };
        if fields.is("confirm").unwrap_or_default() {
            reservation.run(|| async { Ok::<(), CallError>(()) }).await?;
            return Ok(json!({ "delivered": false }));
        }
        let left = reservation.run(|| async { Err(failure()) }).await;
        Ok(json!({ "delivered": left.err() == Some(failure()) }))
    }
}

fn described(stock: &Stock) -> Value {
    json!({
        "on_hand": stock.on_hand.to_string(),
        "available": stock.available.to_string(),
        "reserved": stock.reserved.to_string(),
        "sold": stock.sold.to_string(),
    })
}

/// Returns the key of an address.
fn address(fields: &Fields) -> Value {
    let text = fields.text("address");
    let bits = fields.number("prefix").unwrap_or(IPV6_BITS);
    let plain = text.split('%').next().unwrap_or_default();
    let key = plain.parse().map_or_else(|_| format!("ip:{text}"), |it| address_key(it, bits));
    json!({ "key": key })
}
