//! The plot: calls a second by calls in flight, one panel for each of the main loads.

use std::{error::Error, path::Path};

use plotters::prelude::*;

use crate::{
    kind::Kind,
    results::Results,
    row::{ECHO, EMBEDDED, LANES, PER_CALL},
};

/// File name in benches/.
pub(crate) const FILE: &str = "side_by_side.svg";
const SIZE: (u32, u32) = (1080, 720);
/// Number of panels across and down.
const PANELS: (usize, usize) = (3, 2);
const LOADS: [Kind; 6] =
    [Kind::Pairs, Kind::Full, Kind::Sequence, Kind::Fixed, Kind::Bucket, Kind::FixedBlocked];
/// Rows and their colours, which are distinct for colour-blind readers too.
const ROWS: [(&str, RGBColor); 4] = [
    (ECHO, RGBColor(110, 110, 110)),
    (EMBEDDED, RGBColor(0, 114, 178)),
    (PER_CALL, RGBColor(204, 121, 167)),
    (LANES, RGBColor(230, 159, 0)),
];

/// Draws the plot.
pub(crate) fn draw(
    results: &Results,
    in_flight: &[u32],
    path: &Path,
) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let title = "Calls a second by calls in flight";
    let panels = area.titled(title, ("sans-serif", 20))?.split_evenly((PANELS.1, PANELS.0));
    for (kind, panel) in LOADS.into_iter().zip(&panels) {
        draw_panel(results, kind, in_flight, panel)?;
    }
    area.present()?;
    Ok(())
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(
    results: &Results,
    kind: Kind,
    in_flight: &[u32],
    panel: &Panel<'_>,
) -> Result<(), Box<dyn Error>> {
    let points = |row: &'static str| -> Vec<(f64, f64)> {
        let at = |number: &u32| Some((f64::from(*number), results.rate((kind, *number, row))?));
        in_flight.iter().filter_map(at).collect()
    };
    let all = || ROWS.iter().flat_map(|(row, _)| points(row));
    let top = all().map(|(_, rate)| rate).fold(1.0, f64::max) * 1.1;
    let last = in_flight.iter().copied().max().map_or(2.0, f64::from).max(2.0);
    let mut chart = ChartBuilder::on(panel)
        .caption(kind.title(), ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d((1.0..last).log_scale(), 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|number| format!("{number:.0}"))
        .y_label_formatter(&|rate| format!("{:.0} k", rate / 1000.0))
        .draw()?;
    for (row, colour) in ROWS {
        let points = points(row);
        if points.is_empty() {
            continue;
        }
        let line = LineSeries::new(points.clone(), colour.stroke_width(2));
        chart
            .draw_series(line)?
            .label(row)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|at| Circle::new(at, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}
