//! Benchmark of parsing, rendering and canonicalizing the configurations of 200 pools.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use kubelet_config::document::Document;
use nodecfg_contract::ContentHash;
use nodecfg_fleet::{Checks, build};

use super::fleet;

pub fn rendering(criterion: &mut Criterion) {
    let files = fleet::repository(fleet::POOLS, 1, "10%");
    let snapshot = fleet::snapshot(&files);
    let desired = fleet::desired(fleet::POOLS, 1);
    let rendered: Vec<_> = desired.pools.values().filter_map(|pool| pool.rendered()).collect();

    let mut group = criterion.benchmark_group("200 pools");
    group.sample_size(20);
    group.bench_function("from files to rendered configurations", |bencher| {
        bencher.iter(|| build(&snapshot, &Checks::default()))
    });
    let bytes = rendered.iter().map(|rendered| rendered.canonical.len()).sum::<usize>();
    group.throughput(Throughput::Bytes(u64::try_from(bytes).unwrap()));
    group.bench_function("canonical form and hash", |bencher| {
        bencher.iter(|| {
            for rendered in &rendered {
                black_box(ContentHash::of(rendered.document.canonical().as_bytes()));
            }
        });
    });
    group.bench_function("parse a canonical form", |bencher| {
        bencher.iter(|| {
            for rendered in &rendered {
                black_box(Document::parse(&rendered.path, &rendered.canonical));
            }
        });
    });
    group.finish();
}
