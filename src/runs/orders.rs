//! Orders for the pools and the rollout of a fleet, which `pause`, `resume`, `abort` and `rollback` write to its Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::arguments::fleet::FleetLocation;
use crate::arguments::unknown_name::unknown_name;
use crate::report::document::terminal as text;
use crate::report::orders::{AbortResult, Aborted, Holder, PoolOrder, PoolOrders, PoolResult};
use crate::report::paused;
use crate::runs::run;
use crate::runs::write_review::layout;
use crate::status::Paused;
use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use nodecfg_cluster::lock::{HoldState, LeaseSnapshot, OrderError};
use nodecfg_cluster::{ClusterError, lock};
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::Desired;
use nodecfg_observed::{Abort, Orders, Pause};

impl FleetLocation {
    /// Name of the user who writes the order: from the API server, or else from this machine.
    pub(crate) async fn requester(&self) -> Result<String, CommandError> {
        if let Some(user) = self.reader.whoami().await? {
            return Ok(user);
        }
        let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(environment::text);
        let user = user.unwrap_or_else(|| "unknown".to_owned());
        Ok(environment::host().map_or_else(|| user.clone(), |host| format!("{user}@{host}")))
    }

    /// Changes the orders, unless `change` leaves them as they are. It is called again if another client changed them.
    pub(crate) async fn update_orders(
        &self,
        mut change: impl FnMut(&mut Orders, &LeaseSnapshot),
    ) -> Result<LeaseSnapshot, OrderError> {
        lock::update_orders(&self.reader, self.namespace.as_str(), &self.fleet, |snapshot| {
            let mut orders = snapshot.orders.clone();
            change(&mut orders, snapshot);
            (orders != snapshot.orders).then_some(orders)
        })
        .await
    }

    /// Changes the orders for these pools, or for the whole fleet (`None`). `change` returns the previous pause of a pool
    /// if it changed, and `result` what became of a pool with or without one. `unknown` is the help for a pool without ConfigMaps and orders; without this
    /// help, such a pool is accepted.
    pub(crate) async fn order_pools(
        self,
        pools: &[Option<PoolName>],
        unknown: Option<&str>,
        mut change: impl FnMut(&mut Orders, Option<&PoolName>, Timestamp) -> Option<Pause>,
        result: impl Fn(bool) -> PoolResult,
    ) -> Result<PoolOrders, CommandError> {
        let maps = self.reader.list_config_maps(self.namespace.as_str()).await?;
        let known: BTreeSet<PoolName> =
            maps.into_iter().filter(|map| self.owns(map)).filter_map(|map| map.pool).collect();
        let mut before: BTreeMap<Option<PoolName>, Pause> = BTreeMap::new();
        let mut refused = None;
        let _held = run::defer_signals("finishing the current change");
        let snapshot = self
            .update_orders(|orders, snapshot| {
                let is_known = |pool: &PoolName| {
                    let was_paused = before.contains_key(&Some(pool.clone()));
                    known.contains(pool) || orders.pauses.contains_key(pool) || was_paused
                };
                refused = pools.iter().flatten().find(|pool| unknown.is_some() && !is_known(pool));
                for pool in pools.iter().filter(|_| refused.is_none()) {
                    if let Some(old) = change(orders, pool.as_ref(), snapshot.now) {
                        before.insert(pool.clone(), old);
                    }
                }
            })
            .await?;
        if let Some(pool) = refused {
            let place = format!("among the ConfigMaps of fleet {}", self.fleet);
            return Err(unknown_name("pool", pool, &place, &known, unknown.unwrap_or_default()));
        }
        let orders = &snapshot.orders;
        let order = |pool: &Option<PoolName>| PoolOrder {
            pool: pool.clone(),
            result: result(before.contains_key(pool)),
            pause: pool.as_ref().map_or(orders.paused.as_ref(), |pool| orders.pauses.get(pool)).cloned(),
            before: before.get(pool).cloned(),
            known: pool.as_ref().is_none_or(|pool| known.contains(pool)),
        };
        let targets: BTreeSet<&Option<PoolName>> = pools.iter().collect();
        let also_paused = orders.pauses.keys().filter(|pool| !pools.iter().flatten().any(|one| one == *pool));
        let also_paused = also_paused.cloned().collect();
        let pools = targets.into_iter().map(order).collect();
        let (paused, running) = (orders.paused.clone(), holder(&snapshot));
        Ok(PoolOrders { fleet: self.fleet, namespace: self.namespace, pools, paused, also_paused, running })
    }

    /// Orders the rollout that holds the lock to stop, and waits until it does, or `stop` is set. `waiting` gets the holder
    /// and the order before the wait.
    pub(crate) async fn abort(
        self,
        order: impl Fn(String, Timestamp) -> Abort,
        timeout: Duration,
        stop: &mut watch::Receiver<bool>,
        waiting: impl FnOnce(&Holder, Option<&Abort>) -> io::Result<()>,
    ) -> Result<Aborted, CommandError> {
        let snapshot = self
            .update_orders(|orders, snapshot| {
                if let Some(holder) = holder(snapshot) {
                    orders.abort(&order(holder.identity, snapshot.now));
                }
            })
            .await?;
        let mut aborted = Aborted {
            fleet: self.fleet.clone(),
            namespace: self.namespace.clone(),
            result: AbortResult::NothingRuns,
            holder: holder(&snapshot),
            expired: None,
            order: None,
            seconds: 0.0,
        };
        if let Some(running) = &aborted.holder {
            aborted.order = snapshot.orders.abort.clone();
            waiting(running, aborted.order.as_ref())?;
            let began = nodecfg_clock::instant();
            let (reader, namespace) = (&self.reader, self.namespace.as_str());
            let end = tokio::select! {
                end = lock::wait_for_release(reader, namespace, &self.fleet, &running.identity, timeout) => end?,
                Ok(_) = stop.wait_for(|stopped| *stopped) => HoldState::StillHeld,
            };
            aborted.seconds = nodecfg_clock::instant().saturating_duration_since(began).as_secs_f64();
            (aborted.result, aborted.expired) = match end {
                HoldState::Released => (AbortResult::Ended, None),
                HoldState::Expired(dead) => (AbortResult::HolderDied, dead.expired),
                HoldState::StillHeld => (AbortResult::StillRunning, None),
            };
        } else if let Some(dead) = lock::expired_holder(snapshot.view.as_ref(), snapshot.now) {
            aborted.result = AbortResult::HolderDied;
            (aborted.holder, aborted.expired) =
                (Some(Holder { identity: dead.holder, since: dead.since }), dead.expired);
        }
        Ok(aborted)
    }

    /// The pause of the whole fleet, by its repository or by an order. Without the right to read orders, only the first.
    pub(crate) async fn paused(&self, desired: Option<&Desired>) -> Result<Option<Paused>, CommandError> {
        let order = match lock::snapshot(&self.reader, self.namespace.as_str(), &self.fleet).await {
            Ok(snapshot) => snapshot.orders.paused,
            Err(OrderError::Cluster(ClusterError::Forbidden { .. })) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Paused::of(desired.is_some_and(|desired| desired.paused), order.as_ref()))
    }

    /// Prints the pause of the whole fleet, if there is one.
    pub(crate) async fn show_pause(
        &self,
        desired: Option<&Desired>,
        terminal: &mut Terminal,
    ) -> Result<(), CommandError> {
        if let Some(pause) = self.paused(desired).await? {
            let layout = layout(terminal.err_line, false);
            text::write(terminal.info(), &paused::report(&pause), layout)?;
        }
        Ok(())
    }

    /// Orders the sync that runs to stop, because the repository pauses the fleet. Returns its holder, if one runs.
    pub(crate) async fn stop_for_paused_fleet(&self, reason: &str) -> Result<Option<Holder>, CommandError> {
        let by = self.requester().await?;
        let mut running = None;
        self.update_orders(|orders, snapshot| {
            running = holder(snapshot);
            if let Some(Holder { identity: holder, .. }) = running.clone() {
                let (by, reason) = (by.clone(), Some(reason.to_owned()));
                orders.abort(&Abort { holder, by, at: snapshot.now, reason, back: false, fleet_paused: true });
            }
        })
        .await?;
        Ok(running)
    }

    /// Pauses a pool, and records the disruption that a rollback allows. An existing pause is kept.
    pub(crate) async fn pause_for_rollback(&self, pool: &PoolName, pause: &Pause) -> Result<(), OrderError> {
        let change = |orders: &mut Orders, _: &LeaseSnapshot| {
            let recorded = orders.pauses.entry(pool.clone()).or_insert_with(|| pause.clone());
            if pause.allowed.is_some() {
                recorded.allowed.clone_from(&pause.allowed);
            }
        };
        self.update_orders(change).await.map(drop)
    }

    /// Removes the pause of a rollback, or from another pause its allowed disruption, if it was not changed since.
    pub(crate) async fn remove_pause_of_rollback(&self, pool: &PoolName, pause: &Pause) -> Result<(), OrderError> {
        let change = |orders: &mut Orders, _: &LeaseSnapshot| match orders.pauses.get_mut(pool) {
            Some(found) if found == pause => drop(orders.pauses.remove(pool)),
            Some(found) if pause.allowed.is_some() && found.allowed == pause.allowed => found.allowed = None,
            _ => {}
        };
        self.update_orders(change).await.map(drop)
    }
}

/// The holder of the lock, unless its lease seems expired.
fn holder(snapshot: &LeaseSnapshot) -> Option<Holder> {
    let identity = lock::current_holder(snapshot.view.as_ref(), snapshot.now)?.to_owned();
    Some(Holder { identity, since: snapshot.view.as_ref().and_then(|view| view.acquired) })
}
