-- What every region bought, and how much of it was large.
CREATE MATERIALIZED VIEW revenue AS
SELECT c.region, SUM(o.amount) AS total, COUNT(*) AS orders, MAX(o.amount) AS largest
FROM orders o JOIN customers c ON o.customer = c.id
GROUP BY c.region;

-- A view over a view.
CREATE MATERIALIZED VIEW strong_regions AS
SELECT region, total FROM revenue WHERE total > 20000;
