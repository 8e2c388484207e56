//! Draws how temporaries grow with the sequence: both axes linear and from zero, so that what grows in proportion is
//! straight.

use std::{collections::BTreeSet, error::Error};

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

/// Gigabytes over tokens of a sequence.
pub struct Curve {
    pub name: &'static str,
    pub points: Vec<(usize, f64)>,
}

const SIZE: (u32, u32) = (760, 420);
/// Colours that are told apart with any kind of colour vision.
const COLOURS: [RGBColor; 3] = [RGBColor(213, 94, 0), RGBColor(0, 114, 178), RGBColor(0, 130, 95)];
/// Room to the right of the curves for their names, in tokens.
const ROOM: usize = 8192;

/// An SVG picture of `curves`, on white.
pub fn draw(curves: &[Curve]) -> Result<String, Box<dyn Error>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let longest = points().map(|point| point.0).max().unwrap_or(1);
    let most = points().map(|point| point.1).fold(1.0, f64::max);
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let ticks: BTreeSet<usize> = [0].into_iter().chain(points().map(|point| point.0)).collect();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(52)
            .build_cartesian_2d(
                (0..longest + ROOM).with_key_points(ticks.into_iter().collect()),
                0.0..most * 1.08,
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_desc_style(("sans-serif", 15))
            .label_style(("sans-serif", 13))
            .x_desc("tokens of a sequence")
            .y_desc("temporaries, GB a device")
            .y_label_formatter(&|gigabytes| format!("{gigabytes:.0}"))
            .draw()?;
        for (Curve { name, points }, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
            let style = ("sans-serif", 14).into_font().color(colour).pos(Pos::new(HPos::Left, VPos::Center));
            let label = |&point| EmptyElement::at(point) + Text::new(*name, (9, 0), style.clone());
            chart.draw_series(points.last().map(label))?;
        }
        area.present()?;
    }
    Ok(picture)
}
