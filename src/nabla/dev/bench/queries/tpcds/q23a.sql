SELECT SUM(sales) AS sales
FROM
  (SELECT cs_quantity * cs_list_price AS sales
   FROM catalog_sales, date_dim
   WHERE d_year = 2000 AND d_moy = 2 AND cs_sold_date_sk = d_date_sk
     AND cs_item_sk IN (SELECT item_sk FROM frequent_ss_items)
     AND cs_bill_customer_sk IN (SELECT c_customer_sk FROM best_ss_customer)
   UNION ALL
   SELECT ws_quantity * ws_list_price AS sales
   FROM web_sales, date_dim
   WHERE d_year = 2000 AND d_moy = 2 AND ws_sold_date_sk = d_date_sk
     AND ws_item_sk IN (SELECT item_sk FROM frequent_ss_items)
     AND ws_bill_customer_sk IN (SELECT c_customer_sk FROM best_ss_customer)) AS sold
LIMIT 100
