SELECT c_last_name, c_first_name, s_store_name, SUM(netpaid) AS paid
FROM ssales
WHERE i_color = 'saddle'
GROUP BY c_last_name, c_first_name, s_store_name
HAVING SUM(netpaid) > (SELECT 0.05 * AVG(netpaid) FROM ssales)
ORDER BY c_last_name, c_first_name, s_store_name
